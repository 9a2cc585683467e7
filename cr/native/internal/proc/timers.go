package proc

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Created is a timer that was made by timer_create, in nanoseconds. Its setting is not in
// /proc: who reads it completes it.
type Created struct {
	ID       int    `json:"id"`
	Clock    int    `json:"clock"`
	Notify   int    `json:"notify"` // SIGEV_...
	Signal   int    `json:"signal,omitempty"`
	Value    uint64 `json:"value,omitempty"` // that comes with the signal
	TID      int    `json:"tid,omitempty"`   // the thread that is told, 0: the process
	Of       int    `json:"of,omitempty"`    // the thread on whose time it runs, if its clock is ClockOf(0, ClockOfThread|...)
	Interval int64  `json:"interval,omitempty"`
	Left     int64  `json:"left,omitempty"` // 0: it does not run
}

// OnThread reports whether the timer runs on the time that one thread computes.
func (t *Created) OnThread() bool { return t.Clock < 0 && t.Clock&ClockOfThread != 0 }

// What a timer does when its time has come.
const (
	NotifySignal = 0
	NotifyNone   = 1
	NotifyThread = 4 // a signal to one thread
)

// Clocks of what processes and threads compute: their kind, which has ClockOfThread for those of one thread, and above it the complement of
// a number, 0 for whoever asks.
const (
	ClockKind     = 7
	ClockOfThread = 4
)

// ClockOf is the clock of a process or a thread.
func ClockOf(number, kind int) int { return ^number<<3 | kind }

// OwnerOf is the number in such a clock.
func OwnerOf(clock int) int { return ^(clock >> 3) }

// MostCounted bounds the numbers of timers where the kernel only counts them: as many are made and deleted until one has the number that is wanted.
const MostCounted = 1 << 16

// RestoreTimerIDs is PR_TIMER_CREATE_RESTORE_IDS, of Linux 6.15: while it is on, timers are made with the number asked for.
const RestoreTimerIDs = 77

// NumbersTimers reports whether this kernel has RestoreTimerIDs.
func NumbersTimers() bool {
	const get = 2
	_, err := unix.PrctlRetInt(RestoreTimerIDs, get, 0, 0, 0)
	return err == nil
}

// ParseTimers parses /proc/PID/timers:
//
//	ID: 1
//	signal: 60/00007fff86e452a8
//	notify: signal/pid.2634
//	ClockID: 0
func ParseTimers(p []byte) ([]Created, error) {
	var all []Created
	err := eachLine(p, func(line []byte) error {
		key, rest, _ := bytes.Cut(line, []byte{':'})
		value := strings.TrimSpace(string(rest))
		if string(key) == "ID" {
			id, err := strconv.Atoi(value)
			if err != nil {
				return bad("timer", line)
			}
			all = append(all, Created{ID: id})
			return nil
		}
		if len(all) == 0 {
			return bad("timer", line)
		}
		if all[len(all)-1].parse(string(key), value) != nil {
			return bad("timer", line)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Created) int { return a.ID - b.ID })
	return all, err
}

// parse takes one line of a timer.
func (t *Created) parse(key, value string) (err error) {
	left, right, _ := strings.Cut(value, "/")
	switch key {
	case "signal":
		if t.Signal, err = strconv.Atoi(left); err == nil {
			t.Value, err = strconv.ParseUint(strings.TrimPrefix(right, "0x"), 16, 64)
		}
	case "notify":
		whom, number, _ := strings.Cut(right, ".")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			return err
		case left == "none":
			t.Notify = NotifyNone
		case left == "signal" && whom == "tid":
			t.Notify, t.TID = NotifyThread, n
		case left != "signal":
			return errProc
		}
	case "ClockID":
		t.Clock, err = strconv.Atoi(value)
	}
	return err
}
