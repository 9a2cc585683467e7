package engine

import (
	"fmt"
	"reflect"
)

// Wildcards and the null rank, as in MPI-4.1 chapters 3.2.4 and 3.10.
const (
	AnySource = -1
	AnyTag    = -1
	ProcNull  = -2
)

// Type describes the elements of a message. Equal types have equal IDs in
// every rank of a job and across architectures.
type Type struct {
	ID   uint32 // kinds of numbers: their reflect.Kind; structs: hash of the layout with LayoutType set; or ObjectType
	Size int    // bytes of one element
	Name string // for errors, e.g. "float64"
	// Swap converts a block of elements between byte orders, in place. It is
	// used only for messages that were saved on another architecture.
	Swap func(p []byte)
	// Room, if not nil, makes a longer buffer for a receive when the matched message is longer than
	// its buffer. It is called with the lock held, and must not call the engine.
	Room func(bytes int) []byte
}

// IDs of types that are not numbers.
const (
	ObjectType = 0x60b   // a value that a codec has made bytes of
	LayoutType = 1 << 31 // this bit: an array or a struct
)

// typeName describes a type by its ID alone.
func typeName(id uint32) string {
	switch {
	case id&LayoutType != 0:
		return fmt.Sprintf("structs or arrays of another layout (%#x)", id)
	case id == ObjectType:
		return "an object (SendObject)"
	case id == 0:
		return "bytes without a type"
	case id <= uint32(reflect.Complex128):
		return reflect.Kind(id).String()
	}
	return fmt.Sprintf("type %#x", id)
}

// id is what the header of a message says of its type.
func (t *Type) id() uint32 {
	if t == nil {
		return 0
	}
	return t.ID
}

// Status describes the message that a receive or probe has found. Source is a world rank here.
type Status struct {
	Source int
	Tag    int
	Bytes  int    // length of the message that was received, or would be
	Type   uint32 // Type.ID of the sender's elements
}

// Saved is a message that had arrived and was not yet received when an image
// was made. Data is in the byte order of the machine that saved it; Foreign is
// set on restart where that is not ours.
type Saved struct {
	Ctx     uint64
	Source  int
	Tag     int32
	Type    uint32
	Foreign bool
	Data    []byte
}
