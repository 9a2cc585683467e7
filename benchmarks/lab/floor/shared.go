package main

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The memory that the processes share: words of each, a line apart, then
// buffers.
const (
	line      = 64
	mostProcs = 1024
	buffers   = mostProcs * words * line
	mostBytes = 64 << 20 // of all buffers
	memory    = buffers + mostBytes
)

// Words of a process.
const (
	came  = iota // to so many meetings
	told         // to all others by the first one: repetitions of a batch
	took         // nanoseconds of a batch
	spent        // of them outside computation
	mark         // what the work needs
	done
	words
)

// shared is the memory as one process sees it.
type shared struct {
	task
	mem     []byte
	seen    []byte // the same, read only: what others have written
	crowded bool
	met     uint64 // meetings
	outside time.Duration
}

func (s *shared) word(rank, which int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.mem[(rank*words+which)*line]))
}

// set sets a word of this process.
func (s *shared) set(which int, n uint64) { atomic.StoreUint64(s.word(s.Rank, which), n) }

// await returns when a word has come to n.
func (s *shared) await(word *uint64, n uint64) {
	for looks := 1; atomic.LoadUint64(word) < n; looks++ {
		s.rest(looks)
	}
}

// rest is what a process does that has looked so often in vain.
func (s *shared) rest(looks int) {
	// Two processes may be on one CPU, though there are others.
	if s.crowded || looks%1000 == 0 {
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// awaitAll returns when the words of all other processes have come to n.
func (s *shared) awaitAll(which int, n uint64) {
	for k := 1; k < s.Procs; k++ {
		s.await(s.word((s.Rank+k)%s.Procs, which), n)
	}
}

// meet returns when all processes have called it.
func (s *shared) meet() {
	s.met++
	s.set(came, s.met)
	s.awaitAll(came, s.met)
}

// buffer is number i of the shared buffers of a size, in mem or seen.
func (s *shared) buffer(mem []byte, i, size int) []byte { return mem[buffers+i*size:][:size] }

// asFloats and asInts are memory as numbers.
func asFloats(b []byte) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func asInts(b []byte) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// asBytes is numbers as memory.
func asBytes(f []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*8)
}
