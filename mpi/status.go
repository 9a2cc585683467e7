package mpi

import (
	"errors"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Special ranks and tags. (MPI-4.1, chapters 3.2.4, 3.11)
const (
	AnySource = -1 // of a receive or probe: a message of any rank
	AnyTag    = -1 // of a receive or probe: a message of any tag
	ProcNull  = -2 // no rank: sends to it and receives from it complete at once
	Root      = -4 // of a collective on an intercommunicator: this rank is the root
	Undefined = -3 // a colour in Split, and an index or count that does not exist
)

// The engine has the same numbers under the same names. They stand here once more because go doc shows a constant as it is
// written. A conversion of a negative constant would not compile.
const (
	_ = uint(AnySource-engine.AnySource) | uint(engine.AnySource-AnySource)
	_ = uint(AnyTag-engine.AnyTag) | uint(engine.AnyTag-AnyTag)
	_ = uint(ProcNull-engine.ProcNull) | uint(engine.ProcNull-ProcNull)
)

// MaxTag is the largest tag of a message; the smallest is 0. (MPI-4.1, chapter
// 9.1.2, MPI_TAG_UB)
const MaxTag = 1<<31 - 1

// Status tells what a receive or a probe has found. (MPI-4.1, chapter 3.2.5) For a send, an inactive request or
// ProcNull it is MPI's empty status: source AnySource (ProcNull for ProcNull), tag AnyTag, count 0.
type Status struct {
	Source int // the sender's rank in the communicator
	Tag    int
	Count  int // elements received; after a probe, those of the message, or Undefined for a struct or array type: see CountOf
	Bytes  int // length of the message; after ErrTruncate not all of it was delivered
}

var (
	emptyStatus = Status{Source: AnySource, Tag: AnyTag}
	nullStatus  = Status{Source: ProcNull, Tag: AnyTag}
)

// CountOf returns how many elements of T the message of a status has, or Undefined if that is not a whole
// number. (MPI-4.1, chapter 3.2.5, MPI_Get_count)
func CountOf[T any](s Status) int {
	t, err := elem[T]()
	if err != nil || s.Bytes%t.Size != 0 {
		return Undefined
	}
	return s.Bytes / t.Size
}

// failed is status for a receive that has ended with an error. If the message was cut, the part that fits
// counts.
func (c *core) failed(s engine.Status, size int, err error) Status {
	out := c.status(s, size)
	var cut *engine.TruncateError
	if size != 0 && errors.As(err, &cut) {
		out.Count = cut.Room / size
	}
	return out
}

// status translates the engine's status. size is the size of an element. It is 0 after a probe, where only the
// sender's type tells.
func (c *core) status(s engine.Status, size int) Status {
	out := Status{Source: c.fromWorld(s.Source), Tag: s.Tag, Bytes: s.Bytes, Count: Undefined}
	if size == 0 && s.Type < uint32(len(basics)) {
		size = basics[s.Type].Size
	}
	if size != 0 {
		out.Count = s.Bytes / size
	}
	return out
}
