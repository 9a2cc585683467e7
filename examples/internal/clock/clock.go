// Package clock measures how much of a parallel program's loop is not
// computation.
package clock

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// Clock runs on one rank. The zero value stands.
type Clock struct {
	began   time.Time
	left    time.Time
	loop    time.Duration
	outside time.Duration
}

// Start begins the loop, with computation, on all ranks together: how long after
// another a rank came to it belongs to the start of the program, and so does the
// garbage that is left of that.
func (c *Clock) Start(comm *mpi.Comm) error {
	runtime.GC()
	err := mpi.Barrier(comm)
	c.began, c.outside = time.Now(), 0
	return err
}

// Leave ends computation: what follows is messages.
func (c *Clock) Leave() { c.left = time.Now() }

// Return goes on with computation.
func (c *Clock) Return() { c.outside += time.Since(c.left) }

// Stop ends the loop.
func (c *Clock) Stop() { c.loop = time.Since(c.began) }

// Print writes, on rank 0, the means of all ranks in seconds:
//
//	time loop 1.234567890
//	time outside 0.123456789
//
// outside being the part of the loop that was not computation.
func (c *Clock) Print(comm *mpi.Comm, w io.Writer) error {
	sum := make([]float64, 2)
	err := mpi.Reduce(comm, []float64{c.loop.Seconds(), c.outside.Seconds()}, sum, mpi.Sum, 0)
	if err == nil && comm.Rank() == 0 {
		n := float64(comm.Size())
		_, err = fmt.Fprintf(w, "time loop %.9f\ntime outside %.9f\n", sum[0]/n, sum[1]/n)
	}
	return err
}
