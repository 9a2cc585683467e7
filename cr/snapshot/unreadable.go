package snapshot

import "errors"

// Unreadable is the error of a committed snapshot whose schema cannot be read, or that lies where another belongs.
type Unreadable struct {
	Job string
	Seq int
	Err error // why
}

func (e *Unreadable) Error() string { return e.Err.Error() }

func (e *Unreadable) Unwrap() error { return e.Err }

// Damaged reports whether something is wrong with the schema itself. Else it cannot be reached, or may be read by others alone.
func (e *Unreadable) Damaged() bool {
	return errors.Is(e.Err, ErrSchema) || errors.Is(e.Err, ErrMisplaced)
}

// UnreadableOf returns the snapshots that an error of List is about.
func UnreadableOf(err error) (all []*Unreadable) {
	for _, part := range parts(err) {
		var e *Unreadable
		if errors.As(part, &e) {
			all = append(all, e)
		}
	}
	return all
}
