package main

import (
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/busy"
	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

// series is how often a collective runs, and how its data are checked.
type series struct {
	*patterns.Buffers
	reps, skip int
	check      *patterns.Check // nil: not at all
	wrong      int             // elements that were not right
}

// each runs step skip+reps times, with a barrier after each, and tells it whether the time counts.
func (s *series) each(step func(i int, counts bool) error) error {
	for i := range s.skip + s.reps {
		if s.check != nil {
			s.check.Fill(i)
			if err := mpi.Barrier(s.C); err != nil {
				return err
			}
		}
		if err := step(i, i >= s.skip); err != nil {
			return err
		}
		if s.check != nil {
			s.wrong += s.check.Wrong(i)
		}
		if err := mpi.Barrier(s.C); err != nil {
			return err
		}
	}
	return nil
}

// blocking returns the mean, least and most time of the ranks, in microseconds.
func (s *series) blocking(do func(i int) error) ([]float64, error) {
	var sum time.Duration
	err := s.each(func(i int, counts bool) error {
		start := time.Now()
		err := do(i)
		if counts {
			sum += time.Since(start)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return spread(s.C, 1e6*sum.Seconds()/float64(s.reps))
}

// spread returns the mean, least and most of what the ranks have.
func spread(c *mpi.Comm, mine float64) ([]float64, error) {
	sum, err := mpi.AllreduceValue(c, mine, mpi.Sum)
	if err != nil {
		return nil, err
	}
	least, err := mpi.AllreduceValue(c, mine, mpi.Min)
	if err != nil {
		return nil, err
	}
	most, err := mpi.AllreduceValue(c, mine, mpi.Max)
	return []float64{sum / float64(c.Size()), least, most}, err
}

// parts are the times of a nonblocking collective beside a computation.
type parts struct {
	Overall, Compute, Init, Test, Wait time.Duration
}

// run begins the collective, computes for d with some calls of Test between, and waits.
func (p *parts) run(begin func(i int) (mpi.Request, error), i int, load *busy.Load, d time.Duration, polls int) error {
	start := time.Now()
	r, err := begin(i)
	if err != nil {
		return err
	}
	p.Init += time.Since(start)
	done := false
	var tests time.Duration
	all := load.In(d, polls+1, func() {
		if !done && err == nil {
			at := time.Now()
			_, done, err = r.Test()
			tests += time.Since(at)
		}
	})
	if err != nil {
		return err
	}
	p.Test += tests
	p.Compute += all - tests
	at := time.Now()
	if !done {
		_, err = r.Wait()
	}
	p.Wait += time.Since(at)
	p.Overall += time.Since(start)
	return err
}

// overlapped returns the columns of a nonblocking collective: overall, compute, init, test, wait, then mean, least and
// most time of the collective alone, and the overlap. All but two are means of the ranks, in microseconds.
func (s *series) overlapped(polls int, load *busy.Load, begin func(i int) (mpi.Request, error)) ([]float64, error) {
	alone := time.Duration(0)
	err := s.each(func(i int, counts bool) error {
		start := time.Now()
		r, err := begin(i)
		if err == nil {
			_, err = r.Wait()
		}
		if counts {
			alone += time.Since(start)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	pure, err := spread(s.C, 1e6*alone.Seconds()/float64(s.reps))
	if err != nil {
		return nil, err
	}
	var p, warm parts
	d := alone / time.Duration(s.reps)
	err = s.each(func(i int, counts bool) error {
		if counts {
			return p.run(begin, i, load, d, polls)
		}
		return warm.run(begin, i, load, d, polls)
	})
	if err != nil {
		return nil, err
	}
	columns := make([]float64, 5)
	for i, t := range []time.Duration{p.Overall, p.Compute, p.Init, p.Test, p.Wait} {
		columns[i] = 1e6 * t.Seconds() / float64(s.reps) / float64(s.NP())
	}
	if err := mpi.AllreduceInPlace(s.C, columns, mpi.Sum); err != nil {
		return nil, err
	}
	columns = append(columns, pure...)
	return append(columns, overlap(columns[0], columns[1], pure[0])), nil
}

// overlap returns how much of the collective the computation hides, in percent.
func overlap(overall, compute, pure float64) float64 {
	return max(0, 100-(overall-compute)/max(pure, 1e-6)*100)
}
