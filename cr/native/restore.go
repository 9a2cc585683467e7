package native

import (
	"errors"
	"fmt"
	"sync"
)

// ErrProgram is wrapped where the executable is not the one that was imaged.
var ErrProgram = errors.New("not the program that was imaged")

// RestoreOptions says what to restore and what to join it to.
type RestoreOptions struct {
	Rank     int
	Image    string               // path of the image
	BasePath func(seq int) string // path of this rank's image in the snapshot seq of the same job, for images that build on others
	Program  string               // the executable kept with the snapshot

	// Descriptors here that become 0, 1, 2 and State.OOB there; the caller's copies
	// stay the caller's to close. Negative: /dev/null.
	Stdin, Stdout, Stderr int
	// OOB is the rank's end of a stream. Into the other end belong, before anything
	// else, the bytes of Restored.Unread: had the rank read part of a frame when it
	// was imaged, they are the rest of it.
	OOB int

	Files FilesPolicy // what happens to files open for writing
	Tag   string      // names copies and kept tails of output files, e.g. the incarnation in hex

	// Wait: the process is made and stands before its first step, having changed no
	// file, until Restored.Go or End decides.
	Wait      bool
	Hold      bool        // leave the process stopped by SIGSTOP, for a debugger; SIGCONT lets it go on
	CloneLock sync.Locker // held while the process is born; may be nil
}

// Restored is a process that goes on from an image.
type Restored struct {
	PID int
	// Unread are the bytes that had arrived on the stream to the agent and had not
	// been read. Whoever owns its other end writes them first.
	Unread []byte
	// Moved tells why the kernel's clock functions were replaced, "" if they were not.
	Moved string
	// Notes tell which open files are not the ones that they were.
	Notes []string

	decide func(goOn bool) error // nil once it is decided
	unlock func()
}

// Close gives up the locks on the process's output files, when it has ended.
// Without it they go with this process, or when another restore here meets them.
func (r *Restored) Close() error {
	if r.unlock != nil {
		r.unlock()
	}
	return nil
}

// Go lets a process go that was made with Wait. Only now the files that it goes
// on in are cut to the length that they had. After an error, a RestoreError,
// nothing of the process is left.
func (r *Restored) Go() error { return r.settle(true) }

// End ends a process that was made with Wait and reaps it, and removes what was
// made for it. After Go it does nothing.
func (r *Restored) End() error { return r.settle(false) }

func (r *Restored) settle(goOn bool) error {
	f := r.decide
	if r.decide = nil; f == nil {
		return nil
	}
	return f(goOn)
}

// RestoreError is what Restore returns. Nothing of the process is left then;
// files that had been cut stay cut, with their tails beside them.
type RestoreError struct {
	Rank  int
	Image string
	Err   error
}

// Error names the rank, the image and the reason.
func (e *RestoreError) Error() string {
	return fmt.Sprintf("restore of rank %d from %s: %v", e.Rank, e.Image, e.Err)
}

// Unwrap gives the reason.
func (e *RestoreError) Unwrap() error { return e.Err }
