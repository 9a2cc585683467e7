package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// meter shows the progress of the iteration on one line of a terminal, on rank
// 0 alone.
type meter struct {
	w     io.Writer // io.Discard: nothing to show
	shown time.Time
}

func newMeter(c *mpi.Comm, w io.Writer) *meter {
	if c.Rank() != 0 {
		w = io.Discard
	}
	return &meter{w: w}
}

// show rewrites the line, ten times a second at most.
func (m *meter) show(iteration int, residual float64) {
	if m.w == io.Discard || time.Since(m.shown) < 100*time.Millisecond {
		return
	}
	m.shown = time.Now()
	fmt.Fprintf(m.w, "\riteration %d, residual %.2e\x1b[K", iteration, residual)
}

// done clears the line.
func (m *meter) done() {
	if !m.shown.IsZero() {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}
