// Package freemem tells how much memory there is.
package freemem

import (
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/internal/system/proc"
)

// Free is what this process and its children may still use, in bytes: of the machine, or of its control group if that
// allows less.
func Free() uint64 {
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
