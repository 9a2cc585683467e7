// Package unquiet marks processes that have queue pairs of package rdma: an image of one whose requests are under way looks whole, and finds no peer after a
// restart. The mark is a memory file of which others know the name and the size.
package unquiet

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// What stands against an image of a process that is marked, and what to do.
const (
	Why    = "queue pairs of package rdma whose requests are under way"
	Remedy = "call Quiesce of each rdma.Device before the checkpoint and Continue or Restart after it, or close the devices, or have the program take portable images (-cr=self)"
)

// link is the mark's name in /proc/PID/fd.
const link = "/memfd:" + name + " (deleted)"

const name = "gorun-queue-pairs"

// Mark is one, set at first.
type Mark struct{ fd int }

// New marks this process.
func New() (*Mark, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	m := &Mark{fd}
	if err := m.Set(true); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Set sets the mark, or takes it away.
func (m *Mark) Set(on bool) error {
	size := int64(0)
	if on {
		size = 1
	}
	return unix.Ftruncate(m.fd, size)
}

// Close removes the mark.
func (m *Mark) Close() error { return unix.Close(m.fd) }

// Is reports whether a descriptor of a process is a mark that is set, by its name in /proc and its size.
func Is(target string, size int64) bool { return target == link && size > 0 }

// Process reports whether a process has a mark that is set, as far as this one may look.
func Process(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	all, _ := os.ReadDir(dir)
	for _, fd := range all {
		var st unix.Stat_t
		if to, err := os.Readlink(dir + fd.Name()); err == nil && to == link && unix.Stat(dir+fd.Name(), &st) == nil && Is(to, st.Size) {
			return true
		}
	}
	return false
}
