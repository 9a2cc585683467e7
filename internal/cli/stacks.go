package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

var stacksCommand = command{
	name: "stacks", args: "[JOB]", short: "print the stacks of a running job's goroutines",
	long: `
Each rank prints the stacks of all its goroutines as they are at that moment, and goes on.
The rank's process only has to run. The rank need not be in a call of the library, and its
calls need never end. gorun status tells in a line what each rank waits for.

JOB may be left out when only one job runs.

Exit status: 0 all ranks have answered, 1 not all have, 2 wrong usage.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		rank := fs.Int("rank", -1, "print the stacks of this `rank` alone")
		return func(args []string) int {
			var ranks []int
			switch {
			case set(fs)["rank"] && *rank < 0:
				return usage(std, "-rank %d: the number of a rank", *rank)
			case *rank >= 0:
				ranks = []int{*rank}
			}
			return withJob(std, args, func(r *control.Record) error { return stacks(std, r, ranks) })
		}
	},
}

func stacks(std stdio, r *control.Record, ranks []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.AnswerWithin()+askTimeout)
	defer cancel()
	all, err := r.Stacks(ctx, ranks...)
	if err != nil {
		return err
	}
	silent := 0
	for _, s := range all {
		fmt.Fprintf(std.out, "rank %d (pid %d on %s)", s.Rank, s.PID, s.Host)
		if s.Stacks == "" {
			silent++
			fmt.Fprintf(std.out, ": %s\n\n", s.State)
			continue
		}
		fmt.Fprintf(std.out, ":\n\n%s\n", s.Stacks)
	}
	if silent > 0 {
		return fmt.Errorf("%d of %d ranks have told nothing", silent, len(all))
	}
	return nil
}
