package main

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// variable of the environment tells a process its task.
const variable = "GORUN_FLOOR"

// The memory that the processes share: a flag for each, a line apart, then a
// buffer for each of the first two.
const (
	line      = 64
	mostProcs = 1024
	mostBytes = 1 << 20
	memory    = mostProcs*line + 2*mostBytes
)

// task is what one process has to do.
type task struct {
	Rank, Procs    int
	Bytes          int // of a copy; -1: a barrier
	Batches, Count int
}

func (t task) String() string {
	return fmt.Sprint(t.Rank, t.Procs, t.Bytes, t.Batches, t.Count)
}

// process is the program of one process. The first one prints the times.
func process(text string) {
	var t task
	if _, err := fmt.Sscan(text, &t.Rank, &t.Procs, &t.Bytes, &t.Batches, &t.Count); err != nil {
		log.Fatalf("%s=%q: %v", variable, text, err)
	}
	mem, err := unix.Mmap(3, 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		log.Fatal(err)
	}
	seen, err := unix.Mmap(3, 0, memory, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		log.Fatal(err)
	}
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	s := &shared{task: t, mem: mem, seen: seen, private: make([]byte, max(t.Bytes, 0)), crowded: t.Procs > runtime.NumCPU()}
	s.meet() // all have come
	for range t.Batches {
		begin := time.Now()
		for range t.Count {
			if t.Bytes < 0 {
				s.meet()
			} else {
				s.pass()
			}
		}
		took := time.Since(begin).Seconds() / float64(t.Count)
		if t.Bytes >= 0 {
			took /= 2
		}
		if t.Rank == 0 {
			fmt.Fprintln(os.Stdout, took)
		}
	}
}

// shared is the memory as one process sees it.
type shared struct {
	task
	mem     []byte
	seen    []byte // the same, read only: others' buffers
	private []byte
	crowded bool
	now     uint64 // what this process's flag was set to last
}

func (s *shared) flag(rank int) *uint64 { return (*uint64)(unsafe.Pointer(&s.mem[rank*line])) }

// raise sets this process's flag to the next number.
func (s *shared) raise() {
	s.now++
	atomic.StoreUint64(s.flag(s.Rank), s.now)
}

// await returns when a process has set its flag to n.
func (s *shared) await(rank int, n uint64) {
	f := s.flag(rank)
	for looks := 1; atomic.LoadUint64(f) < n; looks++ {
		// Two processes may be on one CPU, though there are others.
		if s.crowded || looks%1000 == 0 {
			syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// meet returns when all processes have called it.
func (s *shared) meet() {
	s.raise()
	for k := 1; k < s.Procs; k++ {
		s.await((s.Rank+k)%s.Procs, s.now)
	}
}

func (s *shared) buffer(mem []byte, rank int) []byte {
	at := mostProcs*line + rank*mostBytes
	return mem[at : at+s.Bytes]
}

// pass is a message to the other process and its answer.
func (s *shared) pass() {
	if s.Rank == 1 {
		s.await(0, s.now+1)
		copy(s.private, s.buffer(s.seen, 0))
	}
	copy(s.buffer(s.mem, s.Rank), s.private)
	s.raise()
	if s.Rank == 0 {
		s.await(1, s.now)
		copy(s.private, s.buffer(s.seen, 1))
	}
}
