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
	// ErrBusy: a thread could not be brought to stand at a place from which it
	// could go on elsewhere. Another attempt may succeed.
	ErrBusy = errors.New("a thread could not be stopped")
)

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
