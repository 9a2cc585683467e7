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
	t                *test
	np, rank         int
	barriers         bool // before each repetition
	idle             bool // this rank has no part in the test
	load             *busy.Load
}

// once returns a whole repetition: of a nonblocking test, the call and its Wait.
func (s *sample) once() (whole func(int) error, begin func(int) (mpi.Request, error)) {
	if s.t.step != nil {
		return s.t.step(s), nil
	}
	begin = s.t.begin(s)
	return func(i int) error {
		r, err := begin(i)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		return err
	}, begin
}

// seconds returns the mean time of n repetitions.
func (s *sample) seconds(n int, step func(int) error) (float64, error) {
	if err := mpi.Barrier(s.C); err != nil {
		return 0, err
	}
	var sum time.Duration
	start := time.Now()
	for i := range n {
		if s.barriers {
			if err := mpi.Barrier(s.C); err != nil {
				return 0, err
			}
			start = time.Now()
		}
		if err := step(i); err != nil {
			return 0, err
		}
		if s.barriers {
			sum += time.Since(start)
		}
	}
	if !s.barriers {
		sum = time.Since(start)
	}
	return sum.Seconds() / float64(n), nil
}

// enough is how long an estimate lasts.
const enough = time.Millisecond

// estimate returns about how long a repetition takes on the slowest rank, barriers included. It warms up.
func (s *sample) estimate(most int, step func(int) error) (float64, error) {
	for n := 1; ; n *= 2 {
		start := time.Now()
		if _, err := s.seconds(n, step); err != nil {
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
}

var nothing = result{-1, -1, -1}

// measure runs n repetitions.
func (s *sample) measure(n int, step func(int) error, begin func(int) (mpi.Request, error)) (r result, err error) {
	if r.Pure, err = s.seconds(n, step); err != nil || s.idle {
		return nothing, err
	}
	r.Pure /= s.t.parts
	if s.t.shape != overlap && s.t.shape != overlapAlone {
		return r, nil
	}
	d := time.Duration(r.Pure * 1e9)
	for range n {
		r.Compute += s.load.For(d).Seconds() / float64(n)
	}
	r.Overlapped, err = s.seconds(n, func(i int) error {
		q, err := begin(i)
		if err != nil {
			return err
		}
		s.load.For(d)
		_, err = q.Wait()
		return err
	})
	return r, err
}
