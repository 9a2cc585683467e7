package spec

import (
	"errors"
)

// exitError is an error with an exit status of its own.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// StatusOf is the exit status of an error.
func StatusOf(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return ExitFailed
}

// WithStatus gives an error an exit status.
func WithStatus(code int, err error) error { return &exitError{code, err} }
