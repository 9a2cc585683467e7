package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

var checkpointCommand = command{
	name: "checkpoint", args: "[JOB]", short: "take a snapshot of a running job",
	long: `
Waits until the snapshot is committed. Then it prints the path of the schema on standard
output. If the checkpoint fails, the job goes on, and earlier snapshots stay.

JOB is the beginning of a job's id or of its incarnation's id. It may be left out when
only one job runs.

Remarks on the snapshot go to standard error. -v adds its size, how long ranks stood
still, and how long no message could be sent.

Exit status: 0 the snapshot is committed, 1 it is not, 2 wrong usage.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		stop := fs.Bool("stop", false, "end the job after the snapshot; gorun restart continues it")
		verbose := fs.Bool("v", false, "describe the snapshot on standard error")
		timeout := new(time.Duration)
		durationVar(fs, timeout, "timeout", 0, "give up after this `duration`, whatever is in the way (default: when a phase of the checkpoint\ntakes longer than 1m, or a hold)")
		return func(args []string) int {
			return withJob(std, args, func(r *control.Record) error {
				ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
				defer cancel()
				if *timeout > 0 { // the job keeps to it, if it answers at all
					ctx, cancel = context.WithTimeout(ctx, *timeout+askTimeout)
					defer cancel()
				}
				bar := newBar(std.err)
				taken, err := r.Take(ctx, *stop, *timeout, bar.show)
				bar.clear()
				if errors.Is(err, context.Canceled) {
					return errors.New("not waiting any longer; the job may still complete the checkpoint")
				}
				if errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("the job does not answer; it may still complete the checkpoint: %w", err)
				}
				if err != nil {
					return err
				}
				for _, note := range taken.Notes {
					fmt.Fprintln(std.err, "gorun:", note)
				}
				if *verbose {
					fmt.Fprintln(std.err, "gorun:", taken)
				}
				fmt.Fprintln(std.out, taken.Schema)
				return nil
			})
		}
	},
}

// bar shows how far a checkpoint is, on a terminal only.
type bar struct {
	to    io.Writer
	phase string
	pb    *progressbar.ProgressBar
}

func newBar(w io.Writer) *bar {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return &bar{}
	}
	return &bar{to: w}
}

// show draws one phase: bytes while images are written, ranks otherwise.
func (b *bar) show(p control.Progress) {
	if b.to == nil {
		return
	}
	total, done, bytes := int64(p.Size), int64(p.Ranks), false
	if p.Phase == "writing" && p.Total > 0 {
		total, done, bytes = int64(p.Total), int64(p.Written), true
	}
	b.draw(p.Phase, done, total, bytes)
}

// draw draws what is done of a phase.
func (b *bar) draw(phase string, done, total int64, bytes bool) {
	if b.to == nil {
		return
	}
	if b.phase != phase {
		b.clear()
		b.phase = phase
		b.pb = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.to), progressbar.OptionShowBytes(bytes),
			progressbar.OptionSetDescription(fmt.Sprintf("%-10s", phase)), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
	}
	b.pb.Set64(done)
}

func (b *bar) clear() {
	if b.pb != nil {
		b.pb.Clear()
		b.pb = nil
	}
}
