package nas

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/mpi"
)

var (
	slow  = flag.Duration("slow", 0, "pause after each iteration, to watch a short run")
	times = flag.Bool("times", false, "also print how much of the iterations is not computation, where a benchmark knows")
)

// Loop is the timed part of a benchmark: iterations with a Point before each. Its counter and clock are part of a
// portable image, beside what the benchmark registers.
type Loop struct {
	c       *mpi.Comm
	state   *cr.Registry
	next    int
	seconds float64 // up to the last Point
	clock   clock.Clock
	split   bool // the clock knows what is not computation
}

// NewLoop registers the state of a benchmark: pointers to variables by name. After a restart they hold on return what
// they held at the checkpoint. Slices may lie elsewhere then, so what refers to them is made after this call.
func NewLoop(c *mpi.Comm, state map[string]any) (*Loop, error) {
	l := &Loop{c: c, state: cr.On(c), next: 1}
	for name, v := range state {
		if err := l.state.Register(name, v); err != nil {
			return nil, err
		}
	}
	if err := l.state.Register("next iteration", &l.next); err != nil {
		return nil, err
	}
	return l, l.state.Register("seconds", &l.seconds)
}

// Outside calls f, which is not computation.
func (l *Loop) Outside(f func() error) error {
	l.split = true
	l.clock.Leave()
	defer l.clock.Return()
	return f()
}

// Run does the iterations that are left up to the last. It returns the seconds of the slowest rank, with those before
// the checkpoint.
func (l *Loop) Run(last int, step func(i int) error) (float64, error) {
	if err := l.clock.Start(l.c); err != nil {
		return 0, err
	}
	began, before := time.Now(), l.seconds
	for ; l.next <= last; l.next++ {
		l.seconds = before + time.Since(began).Seconds()
		if err := l.state.Point(); err != nil {
			return 0, err
		}
		if err := step(l.next); err != nil {
			return 0, fmt.Errorf("iteration %d: %w", l.next, err)
		}
		time.Sleep(*slow)
	}
	l.clock.Stop()
	seconds, err := mpi.AllreduceValue(l.c, before+time.Since(began).Seconds(), mpi.Max)
	if err != nil || !*times {
		return seconds, err
	}
	if !l.split {
		return 0, errors.New("-times: this benchmark does not know what of it is not computation")
	}
	return seconds, l.clock.Print(l.c, os.Stdout)
}
