package agent

import (
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/internal/launch/proc"
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
	t.free += n // it was given meanwhile
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
// changes them, so a copy costs little at first. But nobody knows what the rank will do, and a
// machine without memory kills a process. If a whole second rank would not fit, the rank stands
// still instead.
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

// freeMemory is what this process and its children may still use.
func freeMemory() uint64 {
	free := proc.Value("/proc/meminfo", "MemAvailable:")
	if free == 0 {
		free = math.MaxUint64
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return free
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			free = min(free, cgroupTwo.free("/sys/fs/cgroup", f[2]))
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			free = min(free, cgroupOne.free("/sys/fs/cgroup/memory", f[2]))
		}
	}
	return free
}

// cgroups are the names of a control group's files in one of the two versions.
type cgroups struct{ limit, used, cache string }

var (
	cgroupOne = cgroups{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	cgroupTwo = cgroups{"memory.max", "memory.current", "inactive_file"}
)

// free is what a group and all those above it may still use.
func (c cgroups) free(root, group string) uint64 {
	free := c.freeOf(root)
	for ; group != "/" && group != "."; group = path.Dir(group) {
		free = min(free, c.freeOf(root+group))
	}
	return free
}

// freeOf is what one group may still use. The page cache counts as used, but can be reclaimed.
func (c cgroups) freeOf(dir string) uint64 {
	limit, ok := readUint(dir + "/" + c.limit)
	if !ok {
		return math.MaxUint64 // none, or no such group
	}
	used, _ := readUint(dir + "/" + c.used)
	if b, err := os.ReadFile(dir + "/memory.stat"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == c.cache {
				cache, _ := strconv.ParseUint(f[1], 10, 64)
				used -= min(used, cache)
			}
		}
	}
	return limit - min(limit, used)
}

func readUint(file string) (uint64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}
