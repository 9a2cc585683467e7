package capture

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// groupWindows is how many windows are given back at a time: few enough that
// little is kept for nothing, many enough that the calls cost nothing.
const groupWindows = 16

// returner gives the memory of a copy back as it is read: the program that goes
// on then need not copy pages before it writes to them, and what it has copied
// already is not kept twice any longer.
type returner struct {
	c      *captured
	groups [][]pages.Extent // what each group of windows gives back
	left   []atomic.Int32   // windows of each that are not read yet
	ready  chan int
	done   chan struct{}
}

func newReturner(c *captured, windows []window) *returner {
	if c.pid == 0 {
		return nil // the process itself
	}
	n := (len(windows) + groupWindows - 1) / groupWindows
	r := &returner{
		c: c, groups: make([][]pages.Extent, n), left: make([]atomic.Int32, n),
		ready: make(chan int, n), done: make(chan struct{}),
	}
	for i, w := range windows {
		g := &r.groups[i/groupWindows]
		r.left[i/groupWindows].Add(1)
		for _, p := range w.patches {
			if !p.private || p.start <= c.text && c.text < p.end {
				continue // the instruction for system calls is most often in one of a file
			}
			if k := len(*g) - 1; k >= 0 && (*g)[k].End == p.start {
				(*g)[k].End = p.end
			} else {
				*g = append(*g, pages.Extent{Start: p.start, End: p.end})
			}
		}
	}
	go r.run()
	return r
}

// wasRead records that the i-th window is not needed any more. It does not wait.
func (r *returner) wasRead(i int) {
	if r != nil && r.left[i/groupWindows].Add(-1) == 0 {
		r.ready <- i / groupWindows
	}
}

func (r *returner) run() {
	defer close(r.done)
	for i := range r.ready {
		failed := false
		open := r.c.th.Do(func() {
			for _, e := range r.groups[i] {
				if _, err := r.c.in.Call(unix.SYS_MUNMAP, e.Start, e.End-e.Start); err != nil {
					failed = true // the copy was killed, which its readers notice
					return
				}
			}
		})
		if failed || !open {
			break
		}
	}
	for range r.ready {
	}
}

// close waits for calls under way. No window is read any more.
func (r *returner) close() {
	if r != nil {
		close(r.ready)
		<-r.done
	}
}
