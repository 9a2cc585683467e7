package image

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Reasons why an image is refused or could not be written, for errors.Is. The
// errors returned are of type *Error and name the file and, where there is one,
// the section.
var (
	ErrNotImage  = errors.New("not an image")
	ErrVersion   = errors.New("unknown version of the format")
	ErrTruncated = errors.New("truncated")
	ErrCorrupt   = errors.New("corrupt")
	ErrTooLarge  = errors.New("larger than the format allows")
	ErrNoSection = errors.New("no such section")
	ErrCanceled  = errors.New("canceled")
	ErrClosed    = errors.New("already closed")
)

// Error is what this package returns: what went wrong with which file.
type Error struct {
	Op      string // "read" or "write"
	Path    string
	Section string // "" if it concerns the file as a whole
	Err     error  // wraps one of the Err values or an error of the system
}

// Error names the file, the section, the reason and, where one is known, what
// to do about it.
func (e *Error) Error() string {
	s := e.Op + " image " + e.Path + ": "
	if e.Section != "" {
		s += fmt.Sprintf("section %q: ", e.Section)
	}
	why := e.Err.Error()
	if p, ok := e.Err.(*fs.PathError); ok && p.Path == e.Path {
		why = p.Err.Error()
	}
	return s + why + remedy(e.Err)
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (free space there, prune old snapshots or write to another folder)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return " (make the folder readable and writable for this user or use another one)"
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrTruncated):
		return " (restart from another snapshot)"
	}
	return ""
}

// fail makes a reason with details; the caller adds file and section.
func fail(reason error, format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{reason}, args...)...)
}
