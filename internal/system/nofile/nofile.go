// Package nofile tells the user what to do when a process may not open more files.
package nofile

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// About how many files the processes of a job need. An agent needs more to image or restore its ranks, and a
// rank to speak to all others over TCP.
func OfHead(agents int) int { return 20 + 2*agents }
func OfAgent(ranks int) int { return 20 + 8*ranks }
func OfRank(size int) int   { return 16 + size }

// Limit returns how many files this process may have open.
func Limit() uint64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return math.MaxUint64
	}
	return lim.Cur
}

// short is an error that names its remedy.
type short struct {
	error
	remedy string
}

func (e *short) Error() string { return fmt.Sprintf("%v: %s", e.error, e.remedy) }
func (e *short) Unwrap() error { return e.error }

// Explain adds the remedy to an error for want of descriptors, and returns any other error as it is. need is
// about how many are needed. or names an alternative; "" means none.
func Explain(err error, need int, or string) error {
	var said *short
	if !errors.Is(err, unix.EMFILE) || errors.As(err, &said) {
		return err
	}
	return &short{err, Remedy(need, or)}
}

// Remedy is what Explain adds.
func Remedy(need int, or string) string {
	limit := Limit()
	text := fmt.Sprintf("the limit on open files (RLIMIT_NOFILE) is %d", limit)
	if uint64(need) > limit {
		text += fmt.Sprintf(", about %d are needed", need)
	}
	text += ": raise it with ulimit -n (as root beyond ulimit -Hn)"
	if or != "" {
		text += ", or " + or
	}
	return text
}
