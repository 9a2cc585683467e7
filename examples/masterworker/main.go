// Masterworker finds prime numbers. Rank 0 gives out intervals to whoever has nothing to do:
//
//	gorun -np 4 -cr ./examples/masterworker -n 10000000
//
// Nobody knows who is ready first, nor how many numbers come back: rank 0 probes, and so learns both before it
// receives. mpi.Map does all this in one call; here it is shown what that consists of. Ranks that ask and answer like
// this have no common Points. So they do it in rounds, each of many intervals, and meet at a Point before each.
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
	n := flag.Int("n", 1_000_000, "look for primes below this number")
	task := flag.Int("task", 10_000, "numbers in an interval")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return masterworker(c, *n, *task, os.Stdout) })
}

const (
	tagTask   = iota // an interval, or nothing at the end of a round
	tagResult        // the primes in it
)

// masterworker is the program of one rank.
func masterworker(c *mpi.Comm, n, task int, out io.Writer) error {
	if n < 0 || task < 1 {
		return errors.New("-n must not be negative, and -task positive")
	}
	state, from := cr.On(c), 0
	var found []int // of rank 0
	if err := errors.Join(state.Register("from", &from), state.Register("found", &found)); err != nil {
		return err
	}
	const tasks = 10 // of each rank in a round, on average
	for ; from < n; from = min(from+tasks*c.Size()*task, n) {
		if err := state.Point(); err != nil {
			return err
		}
		part, err := round(c, from, min(from+tasks*c.Size()*task, n), task)
		if err != nil {
			return err
		}
		found = append(found, part...)
	}
	if c.Rank() > 0 {
		return app.Verdict(c, out, nil)
	}
	app.Report(c, out, "%d primes below %d\n", len(found), n)
	return app.Verdict(c, out, check(found, n))
}

// round finds the primes within from <= p < n: rank 0 gets them.
func round(c *mpi.Comm, from, n, task int) ([]int, error) {
	if c.Rank() > 0 {
		return nil, work(c)
	}
	return give(c, from, n, task)
}

// give has the other ranks find all primes within next <= p < n. If there are none it finds them itself.
func give(c *mpi.Comm, next, n, task int) (found []int, err error) {
	if c.Size() == 1 {
		return primes(next, n), nil
	}
	busy := 0
	send := func(to int) error {
		if next >= n {
			return mpi.Send(c, []int{}, to, tagTask)
		}
		lo, hi := next, min(next+task, n)
		next, busy = hi, busy+1
		return mpi.Send(c, []int{lo, hi}, to, tagTask)
	}
	for to := 1; to < c.Size(); to++ {
		if err := send(to); err != nil {
			return nil, err
		}
	}
	for busy > 0 {
		st, err := c.Probe(mpi.AnySource, tagResult)
		if err != nil {
			return nil, err
		}
		part := make([]int, mpi.CountOf[int](st))
		if _, err := mpi.Recv(c, part, st.Source, tagResult); err != nil {
			return nil, err
		}
		found, busy = append(found, part...), busy-1
		if err := send(st.Source); err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found, nil
}

// work does what rank 0 says, until it says nothing.
func work(c *mpi.Comm) error {
	var task [2]int
	for {
		st, err := mpi.Recv(c, task[:], 0, tagTask)
		if err != nil || st.Count == 0 {
			return err
		}
		if err := mpi.Send(c, primes(task[0], task[1]), 0, tagResult); err != nil {
			return err
		}
	}
}

// primes returns those within lo <= p < hi, by trial: larger ones take longer.
func primes(lo, hi int) (found []int) {
next:
	for p := max(lo, 2); p < hi; p++ {
		for d := 2; d*d <= p; d++ {
			if p%d == 0 {
				continue next
			}
		}
		found = append(found, p)
	}
	return found
}

// check compares with the sieve of Eratosthenes.
func check(found []int, n int) error {
	composite, i := make([]bool, max(n, 2)), 0
	for p := 2; p < n; p++ {
		if composite[p] {
			continue
		}
		if i == len(found) || found[i] != p {
			return fmt.Errorf("%d is missing, or something is there that is no prime", p)
		}
		i++
		for q := p * p; q < n; q += p {
			composite[q] = true
		}
	}
	if i < len(found) {
		return fmt.Errorf("%d is there and no prime below %d", found[i], n)
	}
	return nil
}
