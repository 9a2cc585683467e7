package proc

import (
	"strconv"
	"strings"
)

// Lock is a lock on a file that the process holds.
type Lock struct {
	Class string `json:"class"` // LockFlock, LockPOSIX, LockOFD; other kinds of the kernel's are not needed here
	Write bool   `json:"write,omitempty"`
	Start int64  `json:"start,omitempty"`
	End   int64  `json:"end"` // the last byte, -1: to the end of the file
}

// Classes of locks, as /proc has them.
const (
	LockFlock = "FLOCK"
	LockPOSIX = "POSIX"
	LockOFD   = "OFDLCK"
)

// parseLock parses what follows "lock:" in fdinfo:
//
//	1: POSIX  ADVISORY  WRITE 1234 fe:00:325737 0 EOF
func parseLock(line string) (Lock, error) {
	f := strings.Fields(line)
	if len(f) != 8 {
		return Lock{}, errProc
	}
	l := Lock{Class: f[1], Write: f[3] == "WRITE", End: -1}
	var err error
	if l.Start, err = strconv.ParseInt(f[6], 10, 64); err == nil && f[7] != "EOF" {
		l.End, err = strconv.ParseInt(f[7], 10, 64)
	}
	if err != nil || f[3] != "WRITE" && f[3] != "READ" {
		return Lock{}, errProc
	}
	return l, nil
}
