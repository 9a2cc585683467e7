// Neighbours compares calls between the neighbours of a grid with the same by hand:
//
//	gorun -np 4 ./benchmarks/neighbours
//
// Each rank sends a block to each of its neighbours on a periodic grid of two dimensions: by NeighborAlltoall; by what
// NeighborAlltoallInit has made; and by Irecv, Isend and Waitall. The forms take turns, and another one begins each
// round. It prints medians over the rounds, and of the ratios to what is done by hand within the rounds, with their 95 %
// confidence interval.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	text := flag.String("sizes", "8,1024,16384,262144", "sizes of blocks in bytes")
	rounds := flag.Int("rounds", 31, "rounds in which each form is measured once")
	batch := flag.Duration("time", 10*time.Millisecond, "measured time per form, size and round")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error {
		var sizes []int
		for _, s := range strings.Split(*text, ",") {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				return fmt.Errorf("-sizes: %q is no number of bytes", s)
			}
			sizes = append(sizes, n)
		}
		return compare(c, sizes, *rounds, *batch, os.Stdout)
	})
}

// form is one exchange with all neighbours.
type form struct {
	name string
	do   func() error
}

func compare(c *mpi.Comm, sizes []int, rounds int, batch time.Duration, w io.Writer) error {
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{true, true}, false)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Fprintf(w, "%9s %14s %30s %30s\n", "bytes", "by hand, us", "NeighborAlltoall", "persistent")
	}
	for _, size := range sizes {
		forms, err := formsOf(grid, size)
		if err != nil {
			return err
		}
		seconds, err := measure(c, forms, rounds, batch)
		if err != nil {
			return err
		}
		if c.Rank() != 0 {
			continue
		}
		fmt.Fprintf(w, "%9d %14.3f", size, stats.Median(seconds[0])*1e6)
		for _, s := range seconds[1:] {
			ratios := stats.Ratios(s, seconds[0])
			lo, hi := stats.Interval(ratios)
			fmt.Fprintf(w, "    %8.3f us %.3f (%.3f .. %.3f)", stats.Median(s)*1e6, stats.Median(ratios), lo, hi)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// formsOf returns the forms, the one by hand first.
func formsOf(grid *mpi.Cart, size int) ([]form, error) {
	var peers []int
	for d := range grid.Dims() {
		below, above, err := grid.Shift(d, 1)
		if err != nil {
			return nil, err
		}
		peers = append(peers, below, above)
	}
	send, recv := make([]byte, size*len(peers)), make([]byte, size*len(peers))
	rs := make([]mpi.Request, 2*len(peers))
	byHand := func() (err error) {
		for i, peer := range peers {
			if rs[i], err = mpi.Irecv(grid.Comm, recv[i*size:(i+1)*size], peer, i); err != nil {
				return err
			}
		}
		for i, peer := range peers { // what goes up comes from below
			if rs[len(peers)+i], err = mpi.Isend(grid.Comm, send[i*size:(i+1)*size], peer, i^1); err != nil {
				return err
			}
		}
		return mpi.WaitallInto(rs, nil)
	}
	p, err := mpi.NeighborAlltoallInit(grid, send, recv)
	if err != nil {
		return nil, err
	}
	return []form{
		{"by hand", byHand},
		{"NeighborAlltoall", func() error { return mpi.NeighborAlltoall(grid, send, recv) }},
		{"persistent", func() error {
			r, err := p.Start()
			if err == nil {
				_, err = r.Wait()
			}
			return err
		}},
	}, nil
}

// measure returns the seconds of an exchange, by form and round, as rank 0 sees them.
func measure(c *mpi.Comm, forms []form, rounds int, batch time.Duration) ([][]float64, error) {
	batchOf := func(f form, n int) (float64, error) {
		if err := mpi.Barrier(c); err != nil {
			return 0, err
		}
		began := time.Now()
		for range n {
			if err := f.do(); err != nil {
				return 0, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if err := mpi.Barrier(c); err != nil {
			return 0, err
		}
		return mpi.BcastValue(c, time.Since(began).Seconds(), 0) // all decide by the same
	}
	n := 1
	for {
		took, err := batchOf(forms[0], n)
		if err != nil {
			return nil, err
		}
		if took >= batch.Seconds() || n >= 1<<20 {
			break
		}
		n *= 2
	}
	seconds := make([][]float64, len(forms))
	for round := range rounds {
		for i := range forms {
			k := (i + round) % len(forms)
			took, err := batchOf(forms[k], n)
			if err != nil {
				return nil, err
			}
			seconds[k] = append(seconds[k], took/float64(n))
		}
	}
	return seconds, nil
}
