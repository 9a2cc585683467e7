package mpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Classes of errors, for errors.Is. (MPI-4.1, chapter 9.4)
var (
	ErrTruncate   = engine.ErrTruncate   // the message was longer than the buffer; what fits was delivered
	ErrRank       = engine.ErrRank       // no such rank or root in the communicator
	ErrTag        = engine.ErrTag        // tag out of range
	ErrType       = engine.ErrType       // element type refused, or sender's and receiver's differ
	ErrRequest    = engine.ErrRequest    // the request is completed and gone, or of the wrong kind
	ErrPeerFailed = engine.ErrPeerFailed // the other rank has died
	ErrAborted    = engine.ErrAborted    // the job is being ended
	ErrCanceled   = engine.ErrCanceled   // the receive was cancelled
	ErrPoisoned   = engine.ErrPoisoned   // a collective on this communicator has failed, here or elsewhere
	ErrDeadline   = engine.ErrDeadline   // the context of the call's own WithContext is done; wraps its error
	ErrGaveUp     = engine.ErrGaveUp     // wrapped by ErrPoisoned where the context of a rank in a collective was done; the text names the rank
	ErrFinalized  = engine.ErrFinalized  // the other rank of a message is in Finalize, and sends and receives nothing any more

	ErrComm     = errors.New("invalid communicator")
	ErrCount    = errors.New("wrong length of a buffer")
	ErrBuffer   = errors.New("buffers overlap")
	ErrGroup    = errors.New("invalid group")
	ErrDims     = errors.New("invalid dimensions")
	ErrInfo     = errors.New("invalid hint")
	ErrKey      = errors.New("the key was not made by NewKey")
	ErrOp       = errors.New("invalid operator") // also one that has panicked
	ErrLayout   = errors.New("invalid layout")
	ErrMismatch = errors.New("ranks disagree about the collective call")
	ErrPending  = errors.New("requests are left over")
	ErrInit     = errors.New("library not initialised or already finalised")
)

// errRoot is ErrRank for the root of a collective.
var errRoot = fmt.Errorf("%w", ErrRank)

// errInter is ErrComm for a call that intercommunicators do not have.
var errInter = fmt.Errorf("%w: an intercommunicator", ErrComm)

// errMade is ErrMismatch for a call that makes a communicator.
var errMade = fmt.Errorf("%w", ErrMismatch)

// remedies say what to do about a class of error.
var remedies = []struct {
	class error
	text  string
}{
	{ErrMismatch, "all ranks must make the same collective calls in the same order, with matching root, lengths and types"},
	{ErrTruncate, "receive into a longer slice, or use RecvAlloc"},
	{ErrTag, "tags are 0..MaxTag, in receives also AnyTag"},
	{errRoot, "the root is one of the ranks 0..Size()-1, the same on all"},
	{ErrRank, "ranks are 0..Size()-1, or ProcNull, in receives also AnySource"},
	{errInter, "merge it, or use the collectives that chapter 6.2.3 of MPI-4.1 lists"},
	{ErrPoisoned, "give the communicator up and make a new one from its parent"},
	{ErrRequest, "complete each request once; Waitall and its like clear what they have completed"},
	{ErrFinalized, "every message needs its counterpart: before a rank calls Finalize it sends and receives all that others expect of it"},
	{ErrPending, "end each request by Wait, Test or their like, and receive what a matched probe has taken, before Finalize"},
	{ErrBuffer, "use the InPlace form"},
	{ErrLayout, "a view's layout stays within its data, and names no element twice where it receives"},
}

// Error is what the calls of this package return. Err holds the class. (MPI-4.1, chapter 9.3)
type Error struct {
	Call string // the function with peer, tag or root: "Recv(source 3, tag 7)", "Wait of Irecv(source 3, tag 7)"
	Comm string // the communicator's path
	Rank int    // the calling rank in it
	Size int    // its number of ranks; 0: the call has no communicator, and Rank means nothing
	Peer int    // the other rank of a message, as the call named it, or AnySource or ProcNull; else Undefined
	Tag  int    // the tag of a message, as the call named it, or AnyTag; else Undefined
	Err  error
}

// RequestError is what calls on several requests return for one that has failed. Where several have, the error
// joins theirs, and errors.As finds the first. (MPI-4.1, chapter 3.7.5, MPI_ERR_IN_STATUS)
type RequestError struct {
	Index int // of the request in the slice
	Err   error
}

func (e *RequestError) Error() string { return fmt.Sprintf("request %d: %v", e.Index, e.Err) }

// Unwrap returns the error of the request, an *Error.
func (e *RequestError) Unwrap() error { return e.Err }

// joinRequests returns the errors of several requests as one; nil if there are none.
func joinRequests(all []error) error {
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("mpi: ")
	b.WriteString(e.Call)
	if e.Size > 0 {
		fmt.Fprintf(&b, " on %s, rank %d of %d", e.Comm, e.Rank, e.Size)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	for _, r := range remedies {
		if errors.Is(e.Err, r.class) {
			if !strings.HasSuffix(b.String(), r.text) { // another rank's error may end with it already
				b.WriteString("; ")
				b.WriteString(r.text)
			}
			break
		}
	}
	return b.String()
}

// Unwrap returns the class of the error, perhaps wrapped further.
func (e *Error) Unwrap() error { return e.Err }

// fail wraps err for a call on c, which may be nil.
func (c *Comm) fail(call string, err error) error {
	var already *Error
	if errors.As(err, &already) && (err == error(already) || !errors.Is(err, ErrPoisoned)) {
		return err
	} // else it is of the earlier call that has poisoned the communicator
	e := &Error{Call: call, Peer: Undefined, Tag: Undefined, Err: err}
	if c != nil && c.core != nil {
		e.Comm, e.Rank, e.Size = c.path, c.rank, c.own().size
		if errors.Is(err, ErrPoisoned) {
			e.Err = c.env.explain(c.ctx, err)
		}
	}
	return e
}

// called returns the error of a call with the name of the one that the program has made, which consists of it.
func called(name string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	own := *e // others may know of it
	_, arguments, found := strings.Cut(e.Call, "(")
	if own.Call = name; found {
		own.Call += "(" + arguments
	}
	return &own
}

// failPeer is fail for a call that names a peer and a tag.
func (c *Comm) failPeer(call, role string, peer, tag int, err error) error {
	err = c.fail(fmt.Sprintf("%s(%s %s, tag %s)", call, role, rankName(peer), tagName(tag)), err)
	if e, ok := err.(*Error); ok && e.Peer == Undefined {
		e.Peer, e.Tag = peer, tag
	}
	return err
}

func rankName(r int) string {
	switch r {
	case AnySource:
		return "any"
	case ProcNull:
		return "null"
	}
	return fmt.Sprint(r)
}

func tagName(t int) string {
	if t == AnyTag {
		return "any"
	}
	return fmt.Sprint(t)
}
