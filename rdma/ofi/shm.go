package ofi

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Each device of libfabric's shm has a file in shmDir, which peers map. Those of processes that were killed stay. So each has the name of a socket
// that is there as long as the process is (pulse), and of the namespace in which the socket can be seen.
const (
	shmScheme = "fi_ns://"
	shmDir    = "/dev/shm"
	shmPrefix = "gorun-ofi-" // whole images know it
)

// shmName returns an address for a new device.
func shmName() string {
	return fmt.Sprintf("%s%s%d-%016x", shmScheme, seenPrefix(), os.Getpid(), random())
}

func seenPrefix() string {
	var st syscall.Stat_t
	_ = syscall.Stat("/proc/self/ns/net", &st) // without /proc all are of namespace 0
	return fmt.Sprintf("%s%d-", shmPrefix, st.Ino)
}

// sweep removes the files of processes that are no more.
func sweep() {
	files, _ := filepath.Glob(filepath.Join(shmDir, seenPrefix()+"*")) // the pattern is one
	for _, file := range files {
		p := &peer{pulse: &unix.SockaddrUnix{Name: "@" + filepath.Base(file)}, socket: -1}
		if !p.alive() {
			_ = os.Remove(file) // another process may have done it
		}
		p.close()
	}
}

// neighbours are the devices of libfabric's shm in this process. Those reach each other's memory directly, and would do so after one is closed: so none is
// closed before the last.
var neighbours struct {
	sync.Mutex
	open   int
	closed []*endpoint
}

func (f *endpoint) enter() {
	if f.name == "shm" {
		neighbours.Lock()
		defer neighbours.Unlock()
		neighbours.open++
	}
}

// leave closes the endpoint, or notes that it may be closed.
func (f *endpoint) leave() {
	if f.name != "shm" {
		f.close()
		return
	}
	neighbours.Lock()
	defer neighbours.Unlock()
	neighbours.closed = append(neighbours.closed, f)
	if neighbours.open--; neighbours.open > 0 {
		return
	}
	for _, f := range neighbours.closed {
		f.close()
	}
	neighbours.closed = nil
}

// desert forgets all of a life before.
func (f *endpoint) desert() {
	if f.name == "shm" {
		neighbours.Lock()
		defer neighbours.Unlock()
		neighbours.open--
		neighbours.closed = nil
	}
}
