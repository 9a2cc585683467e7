package agent

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A rank that goes on while its image is written gets a page of its own for each page that it
// changes. A rank that changes all its memory faster than the disk takes it would come to need twice
// as much. It is made to wait before that.

const (
	growthPoll  = 100 * time.Millisecond
	growthFloor = 64 << 20 // less growth than this is ignored
)

// growthLimit is how much more than its size a rank and its copy may need.
func growthLimit(size uint64) uint64 { return max(size/2, growthFloor) }

// growth watches one copy until end is called.
type growth struct {
	r     *rankProc
	copy  int           // pid
	limit uint64        // bytes
	seen  uint64        // bytes that it did not share at the last look
	given uint64        // pages that the rank had been given at the last look
	quit  chan struct{} // closed by end
	once  sync.Once
	done  chan struct{}
	stood time.Duration // for which the rank was made to wait
}

// watchGrowth begins to watch. It returns nil if there is nothing to watch.
func watchGrowth(r *rankProc, copy int, size uint64) *growth {
	if copy == 0 || size <= growthFloor {
		return nil
	}
	st, _ := procfs.ReadStat(r.pid)
	g := &growth{r: r, copy: copy, limit: growthLimit(size), given: st.Faults, quit: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	return g
}

// exceeds reports whether the copy needs too much. A look costs time for each page, and many
// processes may be watched at once. So it waits until the rank has been given enough pages since
// the last look to exceed the limit: the kernel gives it one for each page that it changes. A page
// that is not shared any more never is again.
func (g *growth) exceeds() bool {
	if g.seen > g.limit {
		return true
	}
	st, ok := procfs.ReadStat(g.r.pid)
	if ok && g.seen+(st.Faults-g.given)*uint64(os.Getpagesize()) <= g.limit {
		return false
	}
	g.seen, g.given = unshared(g.copy), st.Faults
	return g.seen > g.limit
}

// end lets the rank go on, before the copy is released.
func (g *growth) end() {
	if g == nil {
		return
	}
	g.once.Do(func() { close(g.quit) })
	<-g.done
}

func (g *growth) run() {
	defer close(g.done)
	t := time.NewTicker(growthPoll)
	defer t.Stop()
	var since time.Time
	for {
		select {
		case <-t.C:
		case <-g.quit:
			if !since.IsZero() {
				g.stood = time.Since(since)
				g.r.signal(syscall.SIGCONT)
			}
			return
		}
		if g.exceeds() {
			if since.IsZero() {
				since = time.Now()
			}
			g.r.signal(syscall.SIGSTOP) // again if another process has continued it
		}
	}
}

// unshared is the memory that a copy no longer shares with its rank. The kernel walks all pages for it.
func unshared(pid int) uint64 {
	return proc.Sum(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Private_Dirty:", "Private_Clean:")
}

func (g *growth) note() string {
	if g == nil || g.stood == 0 {
		return ""
	}
	return fmt.Sprintf("it stood still for %v until its image was written: what it had changed meanwhile needed %d MB beside the copy",
		g.stood.Round(time.Millisecond), g.limit>>20)
}
