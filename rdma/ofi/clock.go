package ofi

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	settleTime = int64(5 * time.Second)
	lookTime   = time.Second            // between looks at peers that have not answered
	tickTime   = 100 * time.Microsecond // between polls, where libfabric has nothing to wait on
)

var start = time.Now()

// now is in ns.
func now() int64 { return int64(time.Since(start)) }

// ticker is a descriptor that has waiters poll from time to time.
type ticker struct {
	fd    int
	every time.Duration
	on    bool
}

func newTicker(often bool) (*ticker, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("ofi: timer: %w", err)
	}
	t := &ticker{fd: fd, every: lookTime}
	if often {
		t.every = tickTime
	}
	return t, nil
}

// set has it tick, or not.
func (t *ticker) set(on bool) {
	if t.on == on {
		return
	}
	t.on = on
	var spec unix.ItimerSpec
	if on {
		spec.Value = unix.NsecToTimespec(int64(t.every))
		spec.Interval = spec.Value
	}
	_ = unix.TimerfdSettime(t.fd, 0, &spec, nil) // it takes any positive time
}

// take reports whether it has ticked.
func (t *ticker) take() bool {
	var b [8]byte
	n, _ := unix.Read(t.fd, b[:])
	return n == len(b)
}

func (t *ticker) close() { unix.Close(t.fd) }
