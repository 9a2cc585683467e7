package agent

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopWithin is how long ranks may take to stop. A process that waits for a disk stops when it wakes.
const stopWithin = time.Second

// awaitStops waits until the ranks that were sent SIGSTOP stand, all their threads. A signal is only on its way
// when kill returns. The head asks by a ping behind the signal, so its answer tells that the ranks stand.
func (a *agent) awaitStops() {
	a.mu.Lock()
	ranks := make([]*rankProc, 0, len(a.pids))
	for _, r := range a.pids {
		ranks = append(ranks, r)
	}
	a.mu.Unlock()
	for limit := time.Now().Add(stopWithin); len(ranks) > 0 && time.Now().Before(limit); {
		if r := ranks[len(ranks)-1]; r.stands() {
			ranks = ranks[:len(ranks)-1]
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

// stands reports whether the rank is stopped, or has ended. The kernel reports a stop when the last
// thread has stopped; the report is not consumed here.
func (r *rankProc) stands() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reaped || r.pid <= 0 {
		return true
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, r.pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err != nil && err != syscall.EINTR || info.Signo != 0
}
