package offload

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/system/endian"
)

const (
	tailAt        = 64
	processSleeps = 72
	doneAt        = 192
	rankSleeps    = 200
	futexWait     = 0
	futexWake     = 1
	everybody     = 1 << 30
	sleeping      = 1
	longestSleep  = 100 * time.Millisecond // a sleeper then checks events without a waker, such as a lost process
	looks         = 10_000                 // how often a waiter looks without a yield, if that pays: some microseconds
	mostLuck      = 16                     // how long it goes on after it has paid
	badLuck       = -100                   // for how many waits it is not tried
	spins         = 60                     // how often it looks then, with a yield each, before it sleeps: some 20 us
)

// PutTail makes the commands up to t known, and wakes a process that sleeps.
func (s *Shared) PutTail(t uint64) {
	s.word(tailAt).Store(t)
	s.Nudge()
}

// Nudge ends the WaitTail of the process, in whichever process it is called. What WaitTail asks for has
// changed before.
func (s *Shared) Nudge() {
	if s.word32(processSleeps).Swap(0) == sleeping {
		s.futex(processSleeps, futexWake, everybody)
	}
}

// SetDone tells that the commands up to t are done, and wakes a rank that sleeps.
func (s *Shared) SetDone(t uint64) {
	s.word(doneAt).Store(t)
	s.wakeRank()
}

func (s *Shared) wakeRank() {
	if s.word32(rankSleeps).Swap(0) == sleeping {
		s.futex(lowHalf(doneAt), futexWake, everybody)
	}
}

// WaitTail returns when more than seen commands are put, when other says so, or after 100 ms. One goroutine of the
// process calls it.
func (s *Shared) WaitTail(seen uint64, other func() bool) {
	w, sleeps := s.word(tailAt), s.word32(processSleeps)
	if s.spin(w.Load, seen) {
		return
	}
	sleeps.Store(sleeping)
	if w.Load() == seen && !other() {
		s.futex(processSleeps, futexWait, sleeping)
	}
	sleeps.Store(0)
}

// WaitDone returns when more than seen commands are done, when the process has told another state, or after
// 100 ms. Any goroutine of the rank may call it.
func (s *Shared) WaitDone(seen uint64) {
	w := s.word(doneAt)
	if s.spin(w.Load, seen) {
		return
	}
	s.word32(rankSleeps).Store(sleeping)
	if w.Load() == seen {
		s.futex(lowHalf(doneAt), futexWait, uint32(seen))
	}
}

// spin looks for a while and tells whether the counter has moved. Between two processes with a CPU each a yield takes longer than
// a small kernel; but on one CPU a waiter that does not yield waits for itself. So it looks without yields as long as that has paid of late, and tries
// it now and then.
func (s *Shared) spin(load func() uint64, seen uint64) bool {
	if load() != seen {
		return true
	}
	if luck := s.luck.Add(1); luck > 0 {
		for range looks {
			if load() != seen {
				s.luck.Store(mostLuck)
				return true
			}
		}
		if luck -= mostLuck / 4; luck <= 0 {
			luck = badLuck
		}
		s.luck.Store(luck)
	}
	for range spins {
		if load() != seen {
			return true
		}
		syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return false
}

// lowHalf is where the half of a counter lies that moves.
func lowHalf(at int) int {
	if endian.Big {
		return at + 4
	}
	return at
}

// futex waits while the word has that value, or wakes so many. Why a wait has ended does not matter: callers look again.
func (s *Shared) futex(at, op int, value uint32) {
	limit := syscall.NsecToTimespec(int64(longestSleep))
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&s.mem[at])), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
}
