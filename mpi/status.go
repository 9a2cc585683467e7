package mpi

import "github.com/gorun-mpi/gorun/rpi"

// Special ranks and tags. (MPI-4.1, chapters 3.2.4, 3.10)
const (
	AnySource = rpi.AnySource // a receive or probe that takes a message of any rank
	AnyTag    = rpi.AnyTag    // and of any tag
	ProcNull  = rpi.ProcNull  // the rank that is nobody: sends and receives complete at once
	Undefined = -3            // a colour in Split, and an index or count that does not exist
)

// MaxTag is the largest tag of a message; the smallest is 0. (MPI-4.1, chapter
// 9.1.2, MPI_TAG_UB)
const MaxTag = 1<<31 - 1

// Status tells what a receive or a probe has found. (MPI-4.1, chapter 3.2.5)
// Of a send, of an inactive request and of ProcNull all numbers are those of
// MPI's empty status: source AnySource (ProcNull for ProcNull), tag AnyTag,
// count 0.
type Status struct {
	Source int // the sender's rank in the communicator
	Tag    int
	Count  int // elements; after a probe of a struct or array type: Undefined, see CountOf
	Bytes  int // length of the message, of which ErrTruncate may have dropped a part
}

var (
	emptyStatus = Status{Source: AnySource, Tag: AnyTag}
	nullStatus  = Status{Source: ProcNull, Tag: AnyTag}
)

// CountOf returns how many elements of T the message has that a status speaks
// of, Undefined if it is not a whole number. (MPI-4.1, chapter 3.2.5,
// MPI_Get_count)
func CountOf[T any](s Status) int {
	t, err := elem[T]()
	if err != nil || s.Bytes%t.Size != 0 {
		return Undefined
	}
	return s.Bytes / t.Size
}

// status translates what the engine found. An element has so many bytes; 0 after
// a probe, where only the sender's kind of number tells.
func (c *core) status(s rpi.Status, size int) Status {
	out := Status{Source: c.fromWorld(s.Source), Tag: s.Tag, Bytes: s.Bytes, Count: Undefined}
	if size == 0 && s.Type < uint32(len(basics)) {
		size = basics[s.Type].Size
	}
	if size != 0 {
		out.Count = s.Bytes / size
	}
	return out
}
