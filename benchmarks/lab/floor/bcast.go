package main

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startYielding: the others look for the root's word.
func startYielding(s *shared) doing {
	return s.rotate(func() {}, func(n uint64) { s.await(s.word(0, mark), n) })
}

// startSleeping: the others sleep until the root wakes them all.
func startSleeping(s *shared) doing {
	bell := s.word(0, done)
	return s.rotate(func() {
		atomic.AddUint64(bell, 1)
		futex(bell, futexWake, math.MaxInt32)
	}, func(n uint64) {
		for {
			rung := atomic.LoadUint64(bell)
			if atomic.LoadUint64(s.word(0, mark)) >= n {
				return
			}
			futex(bell, futexWait, uint32(rung))
		}
	})
}

// rotate is a broadcast whose root is another process each time. Its word is the
// number of the call, which nobody has before all calls up to it are done.
func (s *shared) rotate(posted func(), await func(n uint64)) doing {
	n := uint64(0)
	return doing{func() {
		root := n % uint64(s.Procs)
		n++
		if root == uint64(s.Rank) {
			atomic.StoreUint64(s.word(0, mark), n)
			posted()
		} else {
			await(n)
		}
	}, func() error {
		if v := atomic.LoadUint64(s.word(0, mark)); v != n {
			return fmt.Errorf("word %d after %d calls", v, n)
		}
		return nil
	}}
}

// What the system call is asked for.
const (
	futexWait = 0
	futexWake = 1
)

func futex(word *uint64, op int, n uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(n), 0, 0, 0)
}
