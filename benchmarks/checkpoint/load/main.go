// Load is the program that benchmarks/checkpoint checkpoints. Each rank registers -mb megabytes that cannot be
// compressed. In every iteration it rewrites a part of them, sends a message round the ring, and adds up a
// number over all ranks. The program runs until it is ended. Rank 0 prints
//
//	running            when the first messages have gone round
//	pause SECONDS      after each checkpoint: the longest that a rank stood at its Point
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	mb := flag.Int("mb", 1, "registered state of each rank in 2^20 bytes")
	flag.Parse()
	if *mb < 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "load: -mb must not be negative, and there are no other arguments")
		os.Exit(2)
	}
	mpi.Run(func(c *mpi.Comm) error { return load(c, *mb<<20/8) })
}

// load is the program of one rank with a state of so many words.
func load(c *mpi.Comm, words int) error {
	var state []uint64
	iteration := uint64(0)
	if !cr.On(c).Restarted() {
		state = make([]uint64, words)
		noise(state, uint64(c.Rank())+1)
	}
	stopped := false
	reg := cr.On(c)
	reg.OnContinue(func() error { stopped = true; return nil })
	if err := reg.Register("state", &state); err != nil {
		return err
	}
	if err := reg.Register("iteration", &iteration); err != nil {
		return err
	}
	for first := true; ; first = false {
		stopped = false
		begin := time.Now()
		if err := reg.Point(); err != nil {
			return err
		}
		pause := time.Since(begin).Seconds()
		if err := work(c, state, iteration); err != nil {
			return err
		}
		iteration++
		if first && c.Rank() == 0 {
			fmt.Println("running")
		}
		if stopped { // at the same Point on every rank
			if err := report(c, pause); err != nil {
				return err
			}
		}
	}
}

// report prints the longest of the ranks' pauses.
func report(c *mpi.Comm, pause float64) error {
	longest := []float64{0}
	if err := mpi.Reduce(c, []float64{pause}, longest, mpi.Max, 0); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("pause %.6f\n", longest[0])
	}
	return nil
}

// work is one iteration.
func work(c *mpi.Comm, state []uint64, iteration uint64) error {
	const parts = 64
	part := uint64(len(state) / parts)
	from := iteration % parts * part
	noise(state[from:from+part], iteration+1)

	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	var token [64]byte
	var received [64]byte
	if _, err := mpi.Sendrecv(c, token[:], next, 0, received[:], before, 0); err != nil {
		return err
	}
	sum := []uint64{iteration}
	return mpi.AllreduceInPlace(c, sum, mpi.Sum)
}

// noise fills p with a random sequence (xorshift64*).
func noise(p []uint64, x uint64) {
	for i := range p {
		x ^= x >> 12
		x ^= x << 25
		x ^= x >> 27
		p[i] = x * 0x2545f4914f6cdd1d
	}
}
