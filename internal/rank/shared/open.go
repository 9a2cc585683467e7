package shared

import "github.com/gorun-mpi/gorun/internal/rank/release"

// OpenMax is the length of the memory that an Open lies in.
const OpenMax = 64

// Open is the last message of a module to a peer, while the engine may add messages to it: short
// messages that may wait and differ from it only in their payload. The engine adds them itself. A
// module opens it only for a message with more set. It closes it with every other call for the
// peer: Send, with any result, SendShort, Flush, and giving its memory back. So the conditions
// under which the first message was sent still hold for those that are added.
type Open struct {
	Size  int // 1 + the bytes of each payload; 0: closed
	Ctx   uint64
	Tag   int32
	Type  uint32
	Body  *[OpenMax]byte // what is before the payloads, then the payloads, one behind the other
	At    uint32         // where the next one goes
	Left  uint32         // how many may be added; At + Left x (Size - 1) <= OpenMax
	Word  *uint64        // says how many messages there are; stored last
	Value uint64         // the value of Word
	Each  uint64         // what each message adds to Value
	Last  uint64         // the bits of Value that the last message clears
}

// Like reports whether a message of size bytes may be added.
func (o *Open) Like(ctx uint64, tag int32, typ uint32, size int) bool {
	return o.Size == size+1 && o.Tag == tag && o.Ctx == ctx && o.Type == typ
}

// Add adds a message. The receiver sees it as soon as a message of its own. A receiver that is
// behind has fewer cache lines to fetch.
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
