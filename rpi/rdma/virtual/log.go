package virtual

import "github.com/gorun-mpi/gorun/rpi/rdma/provider"

// Segment is a piece of a region.
type Segment struct {
	Region   ID
	Off, Len int
}

// Request is a request of the send queue.
type Request struct {
	ID        uint64 // the program's, for the Completion
	Opcode    provider.Opcode
	Flags     provider.Flags
	Immediate uint32
	Segments  []Segment    // not with Inline
	Data      []byte       // with Inline. It is copied
	Remote    RemoteRegion // Write, WriteImmediate, Read
	Off       uint64       // within Remote
}

// Receive is a request of a receive queue.
type Receive struct {
	ID       uint64
	Segments []Segment
}

// Completion says that a request is over.
type Completion struct {
	ID           uint64
	Pair         ID
	Opcode       provider.Opcode
	Status       provider.Status
	Bytes        int
	Immediate    uint32
	HasImmediate bool
}

// entry is a request in the log. Fields are exported for the image.
type entry struct {
	Seq      uint64
	ID       uint64
	Opcode   provider.Opcode
	Flags    provider.Flags
	Imm      uint32
	Segments []Segment
	Data     []byte
	Remote   RemoteRegion
	Off      uint64
	Messages uint64 // of the pair, this one included
	Marker   bool
	Done     bool // of a shared queue: completed, but one before it is not
}

func (e *entry) message() bool {
	return e.Opcode == provider.Send || e.Opcode == provider.SendImmediate || e.Opcode == provider.WriteImmediate
}

func (e *entry) signalled() bool { return e.Flags&provider.Signalled != 0 }

// ring is a log: entries in the order in which they were posted, numbered without gaps. Entries are used again, so posting allocates nothing.
type ring struct {
	Entries []entry
	Head, N int
	Next    uint64 // Seq of the next entry
}

func (r *ring) at(i int) *entry { return &r.Entries[(r.Head+i)%len(r.Entries)] }

// find returns the entry with that number, nil if there is none.
func (r *ring) find(seq uint64) *entry {
	first := r.Next - uint64(r.N)
	if seq < first || seq >= r.Next {
		return nil
	}
	return r.at(int(seq - first))
}

func (r *ring) push() *entry {
	if r.N == len(r.Entries) {
		grown := make([]entry, max(8, 2*r.N))
		for i := range r.N {
			grown[i] = *r.at(i)
		}
		r.Entries, r.Head = grown, 0
	}
	e := r.at(r.N)
	*e = entry{Seq: r.Next, Segments: e.Segments[:0], Data: e.Data[:0]}
	r.N++
	r.Next++
	return e
}

func (r *ring) pop() { r.Head, r.N = (r.Head+1)%len(r.Entries), r.N-1 }

// unpush takes back the newest n.
func (r *ring) unpush(n int) { r.N, r.Next = r.N-n, r.Next-uint64(n) }

// keep drops the entries that its function refuses, and renumbers the rest. Nothing of the log is
// on a device.
func (r *ring) keep(keep func(*entry) bool) {
	var left []entry
	for i := range r.N {
		if e := r.at(i); keep(e) {
			left = append(left, *e)
		}
	}
	first := r.Next
	for i := range left {
		left[i].Seq = first + uint64(i)
	}
	*r = ring{Entries: left, N: len(left), Next: first + uint64(len(left))}
}
