package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
)

var joinCommand = command{
	name: control.VerbJoin, args: "JOB", short: "have nodes join a running job, again or for the first time",
	long: `
A node that has joined is a spare. The ranks stay where they are. When the job starts again
(-restarts), the node takes ranks of nodes that are lost then, and ranks that -shrink-to-fit
has put on others for want of it.

Without flags all nodes of the job join that it cannot use: those that were lost, left out
because they were cut off from another, or not up when the job began. gorun reaches them as
it did at the start (by ssh, or by srun within the allocation of Slurm) and checks them as
it did then. A node that was lost joins when its lease is over, because only then it is
certain that nothing of its past acts any more. join returns when the nodes are up. gorun
status shows them.

Flags may stand behind JOB.`,
	setup: setupJoin,
}

func setupJoin(fs *flag.FlagSet, std stdio) func([]string) int {
	var nodes listFlag
	fs.Var(&nodes, "node", "these `nodes` of the job alone, by the names it knows them by: a,b; may be repeated")
	more := fs.String("hosts", "", "these `nodes`, which the job need not have had: e:4,f; as in gorun -hosts")
	return func(args []string) int {
		args, status := jobFirst(fs, std, "join", args)
		if status != 0 {
			return status
		}
		if *more != "" {
			if _, err := hosts.ParseHosts(*more); err != nil {
				return usage(std, "-hosts: %v", err)
			}
		}
		return withJob(std, args, func(r *control.Record) error {
			ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
			defer cancel()
			err := r.Join(ctx, nodes, *more, func(text string) { fmt.Fprintln(std.err, "gorun:", printable(text)) })
			if errors.Is(err, context.Canceled) {
				return errors.New("not waiting any longer; the nodes may still join")
			}
			return err
		})
	}
}

// jobFirst takes JOB and the flags behind it. It returns what is left, JOB first, or a status for wrong usage.
func jobFirst(fs *flag.FlagSet, std stdio, verb string, args []string) (rest []string, status int) {
	if len(args) == 0 || args[0] == "" { // "" is every id's beginning, and what an unset variable gives
		return nil, usage(std, "%s: which JOB? 'gorun ps' lists them", verb)
	}
	if len(args) > 1 && strings.HasPrefix(args[1], "-") {
		if err := fs.Parse(args[1:]); err != nil {
			return nil, usage(std, "%v\nusage: %s", err, lookup(verb).usage())
		}
		args = slices.Concat(args[:1], fs.Args())
	}
	return args, 0
}

// listFlag collects words separated by commas.
type listFlag []string

func (f *listFlag) String() string { return strings.Join(*f, ",") }

func (f *listFlag) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word == "" {
			return errors.New("a name is empty")
		}
		*f = append(*f, word)
	}
	return nil
}
