package main

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// windowSize is how many messages are under way at once.
const windowSize = 64

// window sends count messages in windows of 64 from rank 0 to rank 1. It prints the time of each call, the best
// of many.
func window(p *pair, count int, out, in []byte) error {
	names := [...]string{"Irecv", "Isend", "Waitall of sends", "Waitall of receives"}
	var best [len(names)]time.Duration
	sends, receives := make([]mpi.Request, windowSize), make([]mpi.Request, windowSize)
	steps := [len(names)]func() error{
		func() error { return post(receives, mpi.Irecv[byte], p.worlds[1], in, 0) },
		func() error { return post(sends, mpi.Isend[byte], p.worlds[0], out, 1) },
		func() error { return mpi.WaitallInto(sends, nil) },
		func() error { return mpi.WaitallInto(receives, nil) },
	}
	for range count / windowSize {
		for i, step := range steps {
			start := time.Now()
			if err := step(); err != nil {
				return err
			}
			if took := time.Since(start); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	for i, name := range names {
		fmt.Printf("%s: %.1f ns each\n", name, float64(best[i])/windowSize)
	}
	return nil
}

// post fills a window.
func post(rs []mpi.Request, call func(*mpi.Comm, []byte, int, int) (mpi.Request, error), c *mpi.Comm, buf []byte, peer int) error {
	for i := range rs {
		var err error
		if rs[i], err = call(c, buf, peer, 1); err != nil {
			return err
		}
	}
	return nil
}
