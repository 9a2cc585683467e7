package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// references are contenders that nothing is compared with: NetPIPE measures
// Open MPI, or bare sockets, in its own way.
var references = []string{"NPopenmpi", "NPtcp"}

// netpipes returns those that are installed. They only play ping-pong.
func netpipes(world *bench.World, o *options, w io.Writer) []*contender {
	var all []*contender
	for _, name := range references {
		if !slices.Contains(o.peers, name) {
			continue
		}
		if why := missing(name); why != "" {
			fmt.Fprintf(w, "%s takes no part: %s\n", name, why)
			continue
		}
		all = append(all, newContender(name, func(ctx context.Context, u unit) ([]figure, error) {
			if u.test != "pingpong" || name == "NPtcp" && u.transport != "tcp" {
				return nil, nil
			}
			return netpipe(ctx, name, filepath.Join(world.Dir, name), u, o)
		}))
	}
	return all
}

// netpipe measures small and large sizes one after the other: NetPIPE is told how
// often to repeat all sizes of a run, and takes the best of seven times.
func netpipe(ctx context.Context, name, file string, u unit, o *options) ([]figure, error) {
	small := func(size int) bool { return size <= 16<<10 }
	var figures []figure
	for _, class := range []struct {
		holds func(size int) bool
		each  time.Duration // roughly what one takes
	}{{small, time.Microsecond}, {func(size int) bool { return !small(size) }, 500 * time.Microsecond}} {
		sizes := slices.DeleteFunc(slices.Clone(u.sizes), func(size int) bool { return !class.holds(size) })
		if len(sizes) == 0 {
			continue
		}
		count := max(3, int(o.time/(14*class.each)))
		args := []string{name, "-p", "0", "-n", strconv.Itoa(count), "-l", strconv.Itoa(slices.Min(sizes)), "-u", strconv.Itoa(slices.Max(sizes)), "-o", file}
		if err := runNetPIPE(ctx, args, u, o.limit); err != nil {
			return figures, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return figures, err
		}
		for line := range strings.Lines(string(text)) {
			var size int
			var mbps, seconds float64
			if _, err := fmt.Sscan(line, &size, &mbps, &seconds); err != nil {
				return figures, fmt.Errorf("%s wrote %q: %w", name, line, err)
			}
			if slices.Contains(sizes, size) { // it adds others between them
				figures = append(figures, figure{key{u.transport, u.test, 2, size}, float64(size) * 8e-6 / mbps})
			}
		}
	}
	return figures, nil
}

// runNetPIPE runs NPopenmpi under mpirun, or the two ends of NPtcp.
func runNetPIPE(ctx context.Context, args []string, u unit, limit time.Duration) error {
	if args[0] != "NPtcp" {
		_, err := bench.Output(ctx, limit, nil, slices.Concat(peers[0].launch[u.transport], []string{"-np", "2"}, args)...)
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := bench.Command(ctx, nil, slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "-o" || s == args[len(args)-1] })...)
	if err := other.Start(); err != nil {
		return err
	}
	defer other.Wait()
	defer cancel()
	_, err := bench.Output(ctx, limit, nil, append(args, "-h", "127.0.0.1")...)
	for range 20 {
		if err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // the other end does not listen yet
		_, err = bench.Output(ctx, limit, nil, append(args, "-h", "127.0.0.1")...)
	}
	return err
}
