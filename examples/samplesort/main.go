// Samplesort sorts numbers that are divided among ranks, batch after batch:
//
//	gorun -np 4 -cr ./examples/samplesort -n 1000000 -batches 10
//
// Each rank sorts its own and draws a sample. All know all samples, and so the same limits between ranks. Each number
// then goes to the rank it belongs to, with one AlltoallAlloc, and each rank merges what it gets. Of a batch that is sorted and
// checked only its size is kept, so a portable image is small.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 1_000_000, "numbers in a batch")
	batches := flag.Int("batches", 4, "batches")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return samplesort(c, *n, *batches, os.Stdout) })
}

// samplesort is the program of one rank.
func samplesort(c *mpi.Comm, n, batches int, out io.Writer) error {
	if n < 0 || batches < 0 {
		return errors.New("-n and -batches must not be negative")
	}
	state, batch, most, bad := cr.On(c), 0, 0, ""
	if err := errors.Join(state.Register("batch", &batch), state.Register("most", &most), state.Register("bad", &bad)); err != nil {
		return err
	}
	for ; batch < batches; batch++ {
		if err := state.Point(); err != nil {
			return err
		}
		lo, hi := app.Range(n, c.Size(), c.Rank())
		keys := make([]uint64, 0, hi-lo)
		for i := lo; i < hi; i++ {
			keys = append(keys, scramble(uint64(batch*n+i)))
		}
		before := digest(keys)
		keys, err := sorted(c, keys)
		if err != nil {
			return err
		}
		wrong, err := check(c, before, keys)
		if err != nil {
			return err
		}
		if wrong != nil {
			bad = fmt.Sprintf("batch %d: %v", batch, wrong)
		}
		most = max(most, len(keys))
	}
	most, err := mpi.ReduceValue(c, most, mpi.Max, 0)
	if err != nil {
		return err
	}
	app.Report(c, out, "%d batches of %d numbers are sorted, no rank had more than %d\n", batches, n, most)
	if bad != "" {
		return app.Verdict(c, out, errors.New(bad))
	}
	return app.Verdict(c, out, nil)
}

// scramble is a permutation of the numbers of 64 bits (Steele, Lea and Flood: Fast splittable pseudorandom number
// generators, 2014).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sorted returns this rank's part of all numbers in order.
func sorted(c *mpi.Comm, keys []uint64) ([]uint64, error) {
	const draws = 32 // for each limit
	slices.Sort(keys)
	var sample []uint64
	for i := range min(draws*c.Size(), len(keys)) {
		sample = append(sample, keys[i*len(keys)/min(draws*c.Size(), len(keys))])
	}
	samples, _, err := mpi.AllgatherAlloc(c, sample)
	if err != nil {
		return nil, err
	}
	slices.Sort(samples)
	send, rest := make([][]uint64, c.Size()), keys
	for r := 0; r < c.Size()-1 && len(samples) > 0; r++ {
		end, _ := slices.BinarySearch(rest, samples[(r+1)*len(samples)/c.Size()])
		send[r], rest = rest[:end], rest[end:]
	}
	send[c.Size()-1] = rest
	runs, err := mpi.AlltoallAlloc(c, send)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(runs...)
	slices.Sort(all)
	return all, nil
}

// sums tell whether the same numbers are still there.
type sums struct{ Count, Sum, Squares uint64 }

func digest(keys []uint64) (s sums) {
	for _, k := range keys {
		s.Count, s.Sum, s.Squares = s.Count+1, s.Sum+k, s.Squares+k*k
	}
	return s
}

// check tells what is wrong with a rank's part, given the digest of what it had before.
func check(c *mpi.Comm, before sums, keys []uint64) (wrong, err error) {
	add := mpi.OpFunc(func(dst, src []sums) {
		for i, s := range src {
			dst[i].Count, dst[i].Sum, dst[i].Squares = dst[i].Count+s.Count, dst[i].Sum+s.Sum, dst[i].Squares+s.Squares
		}
	}, true)
	both := [2]sums{before, digest(keys)}
	if err := mpi.AllreduceInPlace(c, both[:], add); err != nil {
		return nil, err
	}
	largest, below := []uint64{0}, []uint64{0} // of this rank, and of all before it
	if len(keys) > 0 {
		largest[0] = slices.Max(keys)
	}
	if err := mpi.Exscan(c, largest, below, mpi.Max); err != nil {
		return nil, err
	}
	switch {
	case both[0] != both[1]:
		return fmt.Errorf("other numbers than before: %v, not %v", both[1], both[0]), nil
	case !slices.IsSorted(keys):
		return errors.New("this part is not sorted"), nil
	case c.Rank() > 0 && len(keys) > 0 && keys[0] < below[0]:
		return fmt.Errorf("%d is here, and a rank before has %d", keys[0], below[0]), nil
	}
	return nil, nil
}
