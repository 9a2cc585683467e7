package native

import (
	"errors"
	"fmt"
	"runtime"
)

// Reasons, for errors.Is.
var (
	// ErrUnsupported: processes cannot be imaged on this machine.
	ErrUnsupported = errors.New("this machine cannot image processes")
	// ErrRefused: the program cannot be imaged as it is now; the error tells
	// what stands against it and what to do. It has not been disturbed.
	ErrRefused = errors.New("cannot be imaged")
	// ErrDied: the process has ended. It is left for its parent to reap.
	ErrDied = errors.New("the process has ended")
	// ErrBusy: a thread could not be brought to stand at a place from which it
	// could go on elsewhere. Another attempt may succeed.
	ErrBusy = errors.New("a thread could not be stopped")
)

// Error is what Attach, Capture and Write return: what was done to which rank.
type Error struct {
	Op   string // "attach", "capture", "write"
	Rank int
	PID  int
	Err  error
}

// Error names the rank, its process, what was being done and why it failed.
func (e *Error) Error() string {
	return fmt.Sprintf("native image of rank %d (pid %d): %s: %v", e.Rank, e.PID, e.Op, e.Err)
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Refusal is a thing in a program that cannot be imaged. It is an ErrRefused.
type Refusal struct {
	What   string // the thing, by name
	Remedy string // what the user can do about it
}

// Error names the thing and the remedy.
func (r *Refusal) Error() string {
	s := ErrRefused.Error() + ": " + r.What
	if r.Remedy != "" {
		s += " (" + r.Remedy + ")"
	}
	return s
}

// Is makes a Refusal an ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// refuse makes a Refusal; what is a format for args.
func refuse(remedy, what string, args ...any) error {
	return &Refusal{What: fmt.Sprintf(what, args...), Remedy: remedy}
}

// errArch is the reason where the architecture has no code here.
var errArch = fmt.Errorf("%w: native images are made on linux/amd64 only, this is %s/%s (use -cr=self)",
	ErrUnsupported, runtime.GOOS, runtime.GOARCH)
