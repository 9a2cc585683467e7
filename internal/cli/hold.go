package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

var holdCommand = command{
	name: control.VerbHold, args: "JOB", short: "keep checkpoints of a running job off",
	long: `
No checkpoint falls until gorun release. Who asks for one waits, for as long as its
-timeout says (default 1m), and is then told who holds. Periodic ones and those of
-ckpt-on-signal wait without limit; one of them is made up for at the release. An attempt
that has stopped no rank yet is put off. If ranks stand still for their images, hold waits
for that, but not for the images to be written.

The job stays held through automatic restarts. gorun restart begins unheld. Holding twice
is holding once. Programs hold with cr.Hold for sections of their own; gorun status tells
who holds.`,
	setup: setupOrder(control.VerbHold),
}

var releaseCommand = command{
	name: control.VerbRelease, args: "JOB", short: "let checkpoints of a held job fall again",
	long:  "Ends gorun hold. What a program holds by cr.Hold ends with its cr.Release.",
	setup: setupOrder(control.VerbRelease),
}

var suspendCommand = command{
	name: control.VerbSuspend, args: "JOB", short: "stop all ranks of a running job",
	long: `
All processes of all ranks are stopped (SIGSTOP) when suspend returns, and stay where they
are, with their memory, until gorun resume. Meanwhile gorun answers; status says suspended.
No limit of time counts: not -timeout, not that of an image being written. Deadlines in the
program itself, such as contexts, go on.

Checkpoints: one that has stopped the ranks is taken before they are suspended, and its
images are written when the ranks go on, or at once if agents write them (-cr=native). One
that is asked for while the job is suspended waits for gorun resume, for as long as its
-timeout says (default 1m). Checkpoint before you suspend.

If a rank dies meanwhile, a restart waits for gorun resume. gorun kill ends the job.`,
	setup: setupOrder(control.VerbSuspend),
}

var resumeCommand = command{
	name: control.VerbResume, args: "JOB", short: "let a suspended job go on",
	long:  "Ends gorun suspend. A job that was stopped by ^Z goes on by fg in its shell.",
	setup: setupOrder(control.VerbResume),
}

// setupOrder is what the four have in common.
func setupOrder(verb string) func(*flag.FlagSet, stdio) func([]string) int {
	return func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			args, status := jobFirst(fs, std, verb, args)
			if status != 0 {
				return status
			}
			return withJob(std, args, func(r *control.Record) error {
				ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
				defer cancel()
				err := r.Order(ctx, verb)
				if errors.Is(err, context.Canceled) {
					return errors.New("not waiting any longer; the job may still do it")
				}
				return err
			})
		}
	}
}
