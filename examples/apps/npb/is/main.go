// Is is the NAS benchmark IS: it ranks integer keys, ten times (RNR-94-007, section 2.4).
//
//	gorun -np 4 -cr ./examples/apps/npb/is A
//
// The ranks agree on how many keys there are in each bucket, give each rank a row of neighbouring buckets, so that all
// have about as many keys, and send each key to its rank, which counts. Any number of ranks up to that of the buckets
// will do. A rank's state is its keys, two of which change in each iteration.
package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// problem is that of a class: the logarithms of the numbers of keys, of values and of buckets, and what is
// known of the ranks of five keys.
type problem struct {
	keys, values, buckets int
	index                 [probes]int // of the keys
	rank                  [probes]int // of each, but for a shift by the iteration
	shift                 func(probe, iteration int) int
}

const (
	iterations = 10
	probes     = 5
)

var problems = map[nas.Class]problem{
	'S': {16, 11, 9, [probes]int{48427, 17148, 23627, 62548, 4431}, [probes]int{0, 18, 346, 64917, 65463}, upTo(2, 0)},
	'W': {20, 16, 10, [probes]int{357773, 934767, 875723, 898999, 404505}, [probes]int{1249, 11698, 1039987, 1043896, 1048018}, func(p, i int) int {
		if p < 2 {
			return i - 2
		}
		return -i
	}},
	'A': {23, 19, 10, [probes]int{2112377, 662041, 5336171, 3642833, 4250760}, [probes]int{104, 17523, 123928, 8288932, 8388264}, upTo(2, 1)},
	'B': {25, 21, 10, [probes]int{41869, 812306, 5102857, 18232239, 26860214}, [probes]int{33422937, 10244, 59149, 33135281, 99}, func(p, i int) int {
		if p == 1 || p == 2 || p == 4 {
			return i
		}
		return -i
	}},
}

// upTo shifts the ranks of the first keys up and those of the others down.
func upTo(last, less int) func(probe, iteration int) int {
	return func(p, i int) int {
		if p <= last {
			return i - less
		}
		return less - i
	}
}

func main() { nas.Main(is) }

func is(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	if c.Size() > 1<<p.buckets {
		return nil, fmt.Errorf("%d ranks are too many for %d buckets: start at most %d", c.Size(), 1<<p.buckets, 1<<p.buckets)
	}
	first, own := share(1<<p.keys, c.Size(), c.Rank())
	keys, right := generate(p, first, own), 0
	loop, err := nas.NewLoop(c, map[string]any{"keys": &keys, "right": &right})
	if err != nil {
		return nil, err
	}
	s := newSorter(c, loop, p, first, keys)
	seconds, err := loop.Run(iterations, func(i int) error {
		s.change(i)
		if err := s.rank(); err != nil {
			return err
		}
		n, err := s.partial(i)
		right += n
		return err
	})
	if err != nil {
		return nil, err
	}
	wrong, err := s.misplaced()
	return &nas.Report{
		Name: "IS", Size: fmt.Sprint(1 << p.keys), Iterations: iterations, Seconds: seconds, Operations: float64(int(iterations) << p.keys),
		Checks: []nas.Check{
			{What: "known ranks", Got: float64(right), Want: iterations * probes},
			{What: "keys out of order", Got: float64(wrong)},
		},
	}, err
}

// share returns the first of n things that a rank has, and how many.
func share(n, ranks, rank int) (first, own int) {
	first = rank * n / ranks
	return first, (rank+1)*n/ranks - first
}

// generate returns a row of the keys: each is the mean of four random numbers.
func generate(p problem, first, own int) []int32 {
	keys := make([]int32, own)
	r := nas.Seed.After(4 * first)
	for i := range keys {
		sum := r.Next()
		sum += r.Next()
		sum += r.Next()
		sum += r.Next()
		keys[i] = int32(float64(int(1)<<p.values/4) * sum)
	}
	return keys
}
