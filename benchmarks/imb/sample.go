package main

import (
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/busy"
	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// sample is one size of a test, as one rank of a group runs it.
type sample struct {
	patterns.Buffers // C is the group
	*options
	t        *test
	np, rank int
	sets     []patterns.Calls // each with buffers of its own; repetitions take them in turn
	load     *busy.Load
	wrong    int // elements that were not right
}

// newSample makes the buffers of a size.
func newSample(o *options, t *test, c *mpi.Comm, size int, load *busy.Load) *sample {
	s := &sample{Buffers: patterns.Buffers{C: c, Size: size, Shift: o.shift}, options: o, t: t, np: c.Size(), rank: c.Rank(), load: load}
	for range o.copies(t, s.np, size) {
		s.sets = append(s.sets, t.on(s))
	}
	return s
}

// begin begins repetition i.
func (s *sample) begin(i int) (mpi.Request, error) { return s.sets[i%len(s.sets)].Begin(i) }

// whole is repetition i: of a nonblocking test, the call and its Wait.
func (s *sample) whole(i int) error {
	if do := s.sets[i%len(s.sets)].Do; do != nil {
		return do(i)
	}
	r, err := s.begin(i)
	if err != nil {
		return err
	}
	_, err = r.Wait()
	return err
}

// seconds returns the mean time of n repetitions. Those that are checked, and those of a collective, begin together.
func (s *sample) seconds(n int, step func(int) error) (float64, error) {
	if err := s.barrier(); err != nil {
		return 0, err
	}
	apart := s.checked || s.sync && !s.t.loose
	var sum time.Duration
	start := time.Now()
	for i := range n {
		check := &s.sets[i%len(s.sets)].Check
		if s.checked {
			check.Fill(i)
		}
		if apart {
			if err := s.barrier(); err != nil {
				return 0, err
			}
			start = time.Now()
		}
		if err := step(i); err != nil {
			return 0, err
		}
		if apart {
			sum += time.Since(start)
		}
		if s.checked {
			s.wrong += check.Wrong(i)
		}
	}
	if !apart {
		sum = time.Since(start)
	}
	return sum.Seconds() / float64(n), nil
}

// barrier is the library's, or one of messages: in each round a rank hears of twice as many others.
func (s *sample) barrier() error {
	if !s.messages {
		return mpi.Barrier(s.C)
	}
	for d := 1; d < s.np; d *= 2 {
		if _, err := mpi.Sendrecv(s.C, []byte{}, (s.rank+d)%s.np, tagBarrier, []byte{}, (s.rank+s.np-d)%s.np, tagBarrier); err != nil {
			return err
		}
	}
	return nil
}

// enough is how long an estimate lasts.
const enough = time.Millisecond

// estimate returns about how long a repetition takes on the slowest rank, barriers included. It warms up.
func (s *sample) estimate(most int) (float64, error) {
	for n := 1; ; n *= 2 {
		start := time.Now()
		if _, err := s.seconds(n, s.whole); err != nil {
			return 0, err
		}
		took, err := mpi.AllreduceValue(s.C, time.Since(start).Seconds(), mpi.Max)
		if err != nil {
			return 0, err
		}
		if took >= enough.Seconds() || 2*n > most {
			return took / float64(n), nil
		}
	}
}

// result is what a rank has measured, in seconds; below 0 where it had no part.
type result struct {
	Pure, Compute, Overlapped float64
	Wrong                     float64 // elements that were not right
}

var nothing = result{-1, -1, -1, 0}

// measure runs n repetitions.
func (s *sample) measure(n int) (r result, err error) {
	s.wrong = 0
	if r.Pure, err = s.seconds(n, s.whole); err != nil {
		return nothing, err
	}
	r.Pure /= s.t.parts
	r.Wrong = float64(s.wrong)
	if !s.t.shape.overlaps() {
		return r, nil
	}
	d := time.Duration(r.Pure * 1e9)
	for range n {
		r.Compute += s.load.For(d).Seconds() / float64(n)
	}
	r.Overlapped, err = s.seconds(n, func(i int) error {
		q, err := s.begin(i)
		if err != nil {
			return err
		}
		s.load.For(d)
		_, err = q.Wait()
		return err
	})
	r.Wrong = float64(s.wrong)
	return r, err
}
