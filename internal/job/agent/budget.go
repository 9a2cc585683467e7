package agent

import (
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/internal/system/proc"
)

// Two things are scarce while images are made. The disk is fastest when few write at once. Memory: a
// rank and its copy need up to twice as much as the rank had.

// turns hands out shares of the disk, first come first served.
type turns struct {
	mu      sync.Mutex
	free    int64
	waiting []*turn
}

type turn struct {
	n     int64
	ready chan struct{}
}

// A writer's share grows with its image. Small images gain from several flushes under way; two large
// ones keep a disk busy.
const (
	writeShares = 256 << 20
	leastShare  = 32 << 20
	mostShare   = 128 << 20
)

func shareOf(bytes uint64) int64 { return int64(min(max(bytes, leastShare), mostShare)) }

// take waits for a share. It reports false if cancel was closed before.
func (t *turns) take(n int64, cancel <-chan struct{}) bool {
	w := &turn{n, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-cancel:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.waiting {
		if o == w {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			t.next()
			return false
		}
	}
	t.free += n // the share was granted meanwhile
	t.next()
	return false
}

func (t *turns) give(n int64) {
	t.mu.Lock()
	t.free += n
	t.next()
	t.mu.Unlock()
}

func (t *turns) next() {
	for len(t.waiting) > 0 && t.waiting[0].n <= t.free {
		t.free -= t.waiting[0].n
		close(t.waiting[0].ready)
		t.waiting = t.waiting[1:]
	}
}

// memory decides whether a rank may be copied. Rank and copy share their pages until the rank
// changes them, so a copy costs little at first. But the rank's future writes are unknown, and
// a machine without memory kills a process. If a whole second rank would not fit, the rank
// stands still instead.
type memory struct {
	mu       sync.Mutex
	promised uint64        // to copies that exist
	free     func() uint64 // of the machine, and of the cgroup if that is less
}

// promise sets memory aside, or says why there is not enough.
func (m *memory) promise(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.free(); m.promised+n > free {
		return fmt.Errorf("a copy could come to need its %d MB, of %d MB that are free here %d MB are kept for copies of other ranks", n>>20, free>>20, m.promised>>20)
	}
	m.promised += n
	return nil
}

func (m *memory) giveBack(n uint64) {
	m.mu.Lock()
	m.promised -= n
	m.mu.Unlock()
}

// residentBytes is the private memory of a process.
func residentBytes(pid int) uint64 {
	return proc.Value(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")
}
