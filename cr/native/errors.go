// Package refusal is how native images say that a program cannot be imaged as it is
// now: what stands against it, and what to do.
package native

import (
	"errors"
	"fmt"
)

// ErrUnsupported: processes cannot be imaged on this machine.
var ErrUnsupported = errors.New("this machine cannot image processes")

// ErrRefused: the program cannot be imaged as it is now; the error tells what stands
// against it and what to do. It has not been disturbed.
var ErrRefused = errors.New("cannot be imaged")

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
