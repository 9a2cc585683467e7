package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/offload"
)

var migrateCommand = command{
	name: control.VerbMigrate, args: "JOB", short: "move ranks of a running job to another node",
	long: `
The ranks that move go on in processes on the other node, where they were in the program.
All others keep their processes. While the images of those that move are written and read,
nobody computes beyond its next message. migrate returns when all go on, and prints which
ranks are where.

-off empties a node before maintenance. When migrate returns, no rank computes there any
more, and the job does not use it again unless gorun join brings it back. gorun's keeper
stays there until the job or the node ends. So does gorun itself where it runs: if its own
machine goes down, the job does. With -ckpt-local, images of earlier snapshots stay there.

Without -to the ranks go to spares (-spares), then to free slots of other nodes. gorun join
brings further nodes. Snapshots taken before stay of use. Automatic restarts leave the ranks
where they are then.

If anything fails before all ranks are up, everything goes on as it was: the old processes
stand still until then. What they do next, a new process may have done already, such as
writing to a file; what it has printed is not shown. Ranks move as images of whole processes (-cr, -cr=native; gorun info
tells whether they can be made).

With -device nothing moves but what the ranks have on a device: gorun migrate JOB -device 0 -to 1 puts it on another one of
the same machine and library (opencl or cuda, of any kind), between two kernels (gorun devices lists them). -ranks limits that to some ranks. What the other
device does not take goes on where it was. With -to 1@NODE the ranks that have device 0 move to another node, and use device 1
there.

Flags may stand behind JOB.

Exit status: 0 the ranks have moved, 1 they have not, 2 wrong usage.`,
	setup: setupMigrate,
}

func setupMigrate(fs *flag.FlagSet, std stdio) func([]string) int {
	var ranks rankList
	fs.Var(&ranks, "ranks", "these `ranks`: 3,5 or 0-3")
	to := fs.String("to", "", "the `node` that takes them; with -device the device, 1, or 1@NODE")
	device := fs.String("device", "", "move what the ranks have on the device with this `ID`, as cuda:0 or 0")
	off := fs.String("off", "", "all ranks of this `node`, which is not used any more")
	timeout := new(time.Duration)
	durationVar(fs, timeout, "timeout", 0, "give up after this `duration`, whatever is in the way; all are where they were then (default: when\na phase takes longer than 1m)")
	return func(args []string) int {
		args, status := jobFirst(fs, std, control.VerbMigrate, args)
		if status != 0 {
			return status
		}
		switch {
		case *device != "" && *off == "":
			return migrateDevice(std, args, ranks, *device, *to, *timeout)
		case (len(ranks) == 0) == (*off == ""):
			return usage(std, "migrate: either -ranks or -off")
		}
		return withJob(std, args, func(r *control.Record) error {
			return moveRanks(std, r, control.Migration{Ranks: ranks, To: *to, Off: *off, Timeout: *timeout})
		})
	}
}

// migrateDevice moves what ranks have on a device to another one.
func migrateDevice(std stdio, args []string, ranks []int, device, to string, timeout time.Duration) int {
	to, node, away := strings.Cut(to, "@")
	if to == "" {
		return usage(std, "migrate: -device needs -to, the device that takes it")
	}
	if err := errors.Join(offload.CheckDevice(device), offload.CheckDevice(to)); err != nil {
		return usage(std, "migrate: %v", err)
	}
	q := offload.Swap{Op: offload.SwapMove, Device: device, To: to, TimeoutM: cmp.Or(timeout, time.Minute).Milliseconds()}
	if !away {
		return withJob(std, args, func(r *control.Record) error { return swapDevices(std, r, ranks, q) })
	}
	if node == "" {
		return usage(std, "migrate: -to %s@: which node?", to)
	}
	return withJob(std, args, func(r *control.Record) error {
		return moveRanks(std, r, control.Migration{Ranks: ranks, To: node, Device: &q, Timeout: timeout})
	})
}

// revertWithin is how long a move that has run into its limit may take to put everything back.
const revertWithin = 30 * time.Second

// moveRanks moves ranks and prints where they are.
func moveRanks(std stdio, r *control.Record, m control.Migration) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if m.Timeout > 0 { // the job keeps to it, if it answers at all
		ctx, cancel = context.WithTimeout(ctx, m.Timeout+revertWithin)
		defer cancel()
	}
	bar := newBar(std.err)
	moved, err := r.Migrate(ctx, m, bar.show)
	bar.clear()
	if errors.Is(err, context.Canceled) {
		return errors.New("not waiting any longer; the ranks may still move")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the job does not answer; the ranks may still move: %w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s; nobody could send for %v\n", printable(moved.Where), moved.Stood.Round(time.Millisecond))
	return nil
}

// rankList collects ranks.
type rankList []int

func (l *rankList) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*l)), " ", ","), "[]")
}

// mostRanks is how many ranks may be named.
const mostRanks = 1 << 16

func (l *rankList) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		low, high, some := strings.Cut(strings.TrimSpace(word), "-")
		from, err := strconv.Atoi(low)
		to := from
		if err == nil && some {
			to, err = strconv.Atoi(high)
		}
		if err != nil || from < 0 || to < from || to-from >= mostRanks {
			return fmt.Errorf("%q is no rank, and no range of ranks as 0-3", word)
		}
		for rank := from; rank <= to; rank++ {
			if !slices.Contains(*l, rank) {
				*l = append(*l, rank)
			}
		}
	}
	return nil
}
