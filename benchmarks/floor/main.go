// Command floor measures what processes that share memory can do on this machine
// at best, with nothing around it: no message layer comes below that. It starts
// copies of itself and prints
//
//	barrier     each of N processes sets a flag and looks at the others' until all
//	            are set; with more processes than CPUs it yields between two looks
//	ping-pong   one process sets a word, the other answers, time one way
//	copy        the same, and before it a process copies so many bytes into memory
//	            that both see, and the other copies them out
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// options are what the command line asks for.
type options struct {
	procs   []int // of barriers
	sizes   []int // of copies, in bytes; 0: a word alone
	batches int
}

func main() {
	if text := os.Getenv(variable); text != "" {
		process(text)
		return
	}
	o := arguments.Parse("floor", parse)
	bench.Main("floor", func(ctx context.Context) error { return run(ctx, o, os.Stdout) })
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("floor", flag.ContinueOnError)
	procs := f.String("procs", "2,4,16,64", "numbers of `processes` in a barrier")
	sizes := f.String("sizes", "0,1024,8192,65536", "`bytes` that are copied in and out; 0: a word alone")
	f.IntVar(&o.batches, "batches", 21, "median over `N` batches")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err, other error
	o.procs, err = numbers(*procs, 2, mostProcs)
	o.sizes, other = numbers(*sizes, 0, mostBytes)
	if o.batches < 1 || f.NArg() > 0 {
		err = errors.Join(err, errors.New("bad argument; see -help"))
	}
	return o, errors.Join(err, other)
}

// numbers reads a list of numbers from least to most.
func numbers(list string, least, most int) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("%q is not a number from %d to %d", text, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, o *options, w io.Writer) error {
	fmt.Fprintf(w, "%-26s %12s %12s %8s   %d CPUs\n", "", "median us", "least us", "spread", runtime.NumCPU())
	show := func(name string, t task) error {
		times, err := t.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(w, "%-26s %12.3f %12.3f %7.1f%%\n", name, stats.Median(times)*1e6, slices.Min(times)*1e6, 100*stats.Spread(times))
		return nil
	}
	for _, n := range o.procs {
		t := task{Procs: n, Bytes: -1, Batches: o.batches, Count: 100000}
		if n > runtime.NumCPU() {
			t.Count = 1 + 20000/n
		}
		if err := show(fmt.Sprintf("barrier of %d processes", n), t); err != nil {
			return err
		}
	}
	for _, n := range o.sizes {
		name := fmt.Sprintf("copy of %d bytes", n)
		if n == 0 {
			name = "ping-pong of a word"
		}
		if err := show(name, task{Procs: 2, Bytes: n, Batches: o.batches, Count: 1 + 200_000_000/(10000+n)}); err != nil {
			return err
		}
	}
	return nil
}

// measure starts the task's processes and returns the seconds of one repetition
// in each batch.
func (t task) measure(ctx context.Context) (times []float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	runtime.LockOSThread() // with which the processes end
	defer runtime.UnlockOSThread()
	fd, err := unix.MemfdCreate("floor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	mem := os.NewFile(uintptr(fd), "floor")
	defer mem.Close()
	if err := mem.Truncate(memory); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	ended, started := make(chan error, t.Procs), 0
	for t.Rank = range t.Procs {
		c := exec.CommandContext(ctx, self)
		c.Env = append(os.Environ(), variable+"="+t.String())
		c.Stderr, c.ExtraFiles = os.Stderr, []*os.File{mem}
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if t.Rank == 0 {
			c.Stdout = &out
		}
		if err = c.Start(); err != nil {
			cancel()
			break
		}
		started++
		go func() {
			err := c.Wait()
			ended <- err
			if err != nil { // the others wait for it, and do nothing else
				cancel()
			}
		}()
	}
	for range started {
		err = cmp.Or(err, <-ended)
	}
	if err != nil {
		return nil, err
	}
	return readTimes(&out)
}

func readTimes(r io.Reader) (times []float64, err error) {
	for s := bufio.NewScanner(r); s.Scan(); {
		v, err := strconv.ParseFloat(s.Text(), 64)
		if err != nil {
			return nil, err
		}
		times = append(times, v)
	}
	if len(times) == 0 {
		return nil, errors.New("it printed nothing")
	}
	return times, nil
}
