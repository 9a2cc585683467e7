package rpi

import "github.com/gorun-mpi/gorun/internal/release"

// OpenMax is how long the memory is that an Open lies in.
const OpenMax = 64

// Open is what a module sent last to a peer while messages may be added to that: short
// ones that are just like it but for their payload, and that may wait. The engine adds
// them itself. A module opens it only for a message with more set, and closes it with
// all else that it does about the peer: Send, whatever the result, SendShort, Flush, and
// giving its memory back. So what let the message pass lets those pass that are added.
type Open struct {
	Size  int // of each payload in bytes, and one; 0: closed
	Ctx   uint64
	Tag   int32
	Type  uint32
	Body  *[OpenMax]byte // where payloads go, one behind the other, and what else there is before
	At    uint32         // where the next one goes
	Left  uint32         // how many may be added; At + Left x (Size - 1) <= OpenMax
	Word  *uint64        // says how many there are; stored last
	Value uint64         // what it is
	Each  uint64         // what is added to it for each message
	Last  uint64         // the bits of it that the last one clears
}

// Like reports whether a message of size bytes may be added.
func (o *Open) Like(ctx uint64, tag int32, typ uint32, size int) bool {
	return o.Size == size+1 && o.Tag == tag && o.Ctx == ctx && o.Type == typ
}

// Add adds a message. The receiver sees it at once, as it would one by itself, and a
// receiver that is behind has fewer lines to fetch.
func (o *Open) Add(p []byte) {
	copy(o.Body[o.At:], p)
	o.added(len(p))
}

// Add8 is Add for a message of 8 bytes, which spares a call.
func (o *Open) Add8(p []byte) {
	*(*[8]byte)(o.Body[o.At:]) = *(*[8]byte)(p)
	o.added(8)
}

// added says that the next payload is there, of n bytes.
func (o *Open) added(n int) {
	o.At += uint32(n)
	o.Value += o.Each
	if o.Left--; o.Left == 0 {
		o.Size = 0
		o.Value &^= o.Last
	}
	release.Store(o.Word, o.Value)
}

// shut is the Open of a peer that has none.
var shut Open
