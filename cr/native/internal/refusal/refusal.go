// Package refusal is how native images say that a program cannot be imaged as it is
// now: what stands against it, and what to do.
package refusal

import (
	"errors"
	"fmt"
)

// ErrUnsupported: processes cannot be imaged on this machine.
var ErrUnsupported = errors.New("this machine cannot image processes")

// ErrRefused: the program cannot be imaged as it is now; the error tells what stands
// against it and what to do. It has not been disturbed.
var ErrRefused = errors.New("cannot be imaged")

// Error is a thing in a program that cannot be imaged. It is an ErrRefused.
type Error struct {
	What   string // the thing, by name
	Remedy string // what the user can do about it
}

// Error names the thing and the remedy.
func (r *Error) Error() string {
	s := ErrRefused.Error() + ": " + r.What
	if r.Remedy != "" {
		s += " (" + r.Remedy + ")"
	}
	return s
}

// Is makes it an ErrRefused.
func (r *Error) Is(target error) bool { return target == ErrRefused }

// New makes an Error; what is a format for args.
func New(remedy, what string, args ...any) error {
	return &Error{What: fmt.Sprintf(what, args...), Remedy: remedy}
}
