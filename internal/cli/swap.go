package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/offload"
)

var swapOutCommand = command{
	name: offload.SwapOut, args: "JOB", short: "free the memory of a running job's devices",
	long: `
Each process that has a device for a rank finishes the kernels that it has begun, writes what is on the device
to a file without a name, and ends. The file is in memory (/dev/shm) if twice its size is free there, else in the folder
for temporary files. Arrays that are valid in the memory of the rank are not
written. The ranks go on; who waits for a kernel waits until gorun swap-in. Meanwhile
other jobs have the device. A checkpoint takes what is swapped out as it lies; a restart from that swaps it in.

gorun status tells which devices ranks have. Flags may stand behind JOB.

Exit status: 0 all that was meant is swapped out, 1 not, 2 wrong usage.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int { return setupSwap(fs, std, offload.SwapOut) },
}

var swapInCommand = command{
	name: offload.SwapIn, args: "JOB", short: "bring devices back that were swapped out",
	long: `
Each device that gorun swap-out has freed is filled again, in the same place or, with -device, on another
one of the same library, opencl or cuda, for which its kernels are. They are
compiled again, and those that were asked for meanwhile begin.

Flags may stand behind JOB.

Exit status: 0 all that was swapped out is back, 1 not: what cannot be had stays swapped out and another device may be
tried, 2 wrong usage.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int { return setupSwap(fs, std, offload.SwapIn) },
}

func setupSwap(fs *flag.FlagSet, std stdio, op string) func([]string) int {
	var ranks rankList
	fs.Var(&ranks, "rank", "only of these `ranks`: 3,5 or 0-3")
	words := "only what is on the device with this `ID`, as cuda:0 or 0"
	if op == offload.SwapIn {
		words = "the `ID` of the device that takes it, as cuda:1 or 1 (default: the one where it was)"
	}
	device := fs.String("device", "", words)
	timeout := new(time.Duration)
	if op == offload.SwapOut {
		durationVar(fs, timeout, "timeout", time.Minute, "how long a kernel that runs may take to end; then the device stays, and the kernel is named: a `duration`")
	}
	return func(args []string) int {
		args, status := jobFirst(fs, std, op, args)
		if status != 0 {
			return status
		}
		q := offload.Swap{Op: op, TimeoutM: timeout.Milliseconds()}
		if op == offload.SwapIn {
			q.To = *device
		} else {
			q.Device = *device
		}
		if *device != "" {
			if err := offload.CheckDevice(*device); err != nil {
				return usage(std, "%s: %v", op, err)
			}
		}
		return withJob(std, args, func(r *control.Record) error { return swapDevices(std, r, ranks, q) })
	}
}

var swapWords = map[string]string{offload.SwapOut: "swapped out", offload.SwapIn: "swapped in", offload.SwapMove: "moved"}

// swapDevices has it done and prints what was.
func swapDevices(std stdio, r *control.Record, ranks []int, q offload.Swap) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	done, err := r.Swap(ctx, ranks, q)
	if errors.Is(err, context.Canceled) {
		return errors.New("not waiting any longer; it may still be done")
	}
	if err != nil {
		return err
	}
	if done.Done > 0 {
		fmt.Fprintf(std.out, "%d device(s) %s, %.1f MB\n", done.Done, swapWords[q.Op], float64(done.Bytes)/1e6)
	}
	switch {
	case len(done.Errors) > 0:
		return errors.New(strings.Join(done.Errors, "\n"))
	case done.Done == 0 && q.Op == offload.SwapIn:
		return errors.New("nothing is swapped out; gorun status tells which devices the ranks have")
	case done.Done == 0:
		return errors.New("no rank has such a device that gorun can move and that is not swapped out; gorun status tells which they have (opened after mpi.Init, and not cpu:0), and gorun swap-in -device ID brings what is swapped out in on another")
	}
	return nil
}
