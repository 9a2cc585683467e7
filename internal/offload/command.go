package offload

import (
	"encoding/binary"
	"fmt"
)

// Op names what a command does.
type Op uint32

// The commands. Memories and kernels have numbers that the rank chooses and never uses again. Offsets of
// staging count from its begin.
const (
	Write Op = 1 + iota // A: memory, offset, bytes, where in staging
	Read                // A: memory, offset, bytes, where in staging
	Copy                // A: memory to, offset, memory from, offset, bytes
	Run                 // A: kernel, dimensions, global x 3, local x 3 (the first 0: the library chooses); Args
	Alloc               // A: memory, bytes, 0, where in staging, room for the text of a failure. The memory is zero
	Free                // A: memory
	Build               // A: kernel, where in staging, bytes of source, of name and of options, room. Staging: name, options, source
	Drop                // A: kernel
)

var opNames = [...]string{Write: "write", Read: "read", Copy: "copy", Run: "run", Alloc: "alloc", Free: "free", Build: "build", Drop: "drop"}

func (o Op) String() string {
	if o > 0 && int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("command %d", uint32(o))
}

// Timed is the flag of a Run that tells when it ran.
const Timed = 1

// MaxArgs is how many arguments a kernel may have.
const MaxArgs = 26

// ArgKind says what an argument is.
type ArgKind uint32

// The kinds of arguments.
const (
	ArgMemory ArgKind = 1 + iota // Value is its number
	ArgScalar                    // Bytes of Value, 1, 2, 4 or 8
	ArgLocal                     // Value bytes of memory for a group
)

// Arg is an argument of a kernel.
type Arg struct {
	Kind  ArgKind
	Bytes uint32
	Value uint64
}

// Command is a command out of its slot.
type Command struct {
	Op    Op
	Flags uint32
	A     [8]uint64
	Args  []Arg
}

// Where things stand in a slot.
const (
	slotStatus = 12
	slotA      = 16
	slotBegin  = 80
	slotEnd    = 88
	slotArgs   = 96
	argBytes   = 16
)

// Put writes command t into its slot, which must be free. PutTail makes it known.
func (s *Shared) Put(t uint64, c *Command) error {
	if len(c.Args) > MaxArgs {
		return fmt.Errorf("a kernel with %d arguments; at most %d are possible", len(c.Args), MaxArgs)
	}
	e, p := binary.NativeEndian, s.slot(t)
	clear(p[:slotArgs])
	e.PutUint32(p, uint32(c.Op))
	e.PutUint32(p[4:], c.Flags)
	e.PutUint32(p[8:], uint32(len(c.Args)))
	for i, a := range c.A {
		e.PutUint64(p[slotA+8*i:], a)
	}
	for i, a := range c.Args {
		q := p[slotArgs+argBytes*i:]
		e.PutUint32(q, uint32(a.Kind))
		e.PutUint32(q[4:], a.Bytes)
		e.PutUint64(q[8:], a.Value)
	}
	return nil
}

// Get reads command t. It keeps c.Args' memory for reuse. The error says what no rank writes.
func (s *Shared) Get(t uint64, c *Command) error {
	e, p := binary.NativeEndian, s.slot(t)
	c.Op, c.Flags = Op(e.Uint32(p)), e.Uint32(p[4:])
	n := e.Uint32(p[8:])
	if c.Op < Write || c.Op > Drop || n > MaxArgs {
		return fmt.Errorf("no command that this gorun-device knows: number %d with %d arguments; build program and gorun-device of the same gorun", uint32(c.Op), n)
	}
	for i := range c.A {
		c.A[i] = e.Uint64(p[slotA+8*i:])
	}
	c.Args = c.Args[:0]
	for i := range int(n) {
		q := p[slotArgs+argBytes*i:]
		a := Arg{ArgKind(e.Uint32(q)), e.Uint32(q[4:]), e.Uint64(q[8:])}
		if !a.valid() {
			return fmt.Errorf("argument %d is of no kind: %d, %d bytes", i, a.Kind, a.Bytes)
		}
		c.Args = append(c.Args, a)
	}
	return nil
}

func (a Arg) valid() bool {
	switch a.Kind {
	case ArgMemory, ArgLocal:
		return true
	case ArgScalar:
		return a.Bytes == 1 || a.Bytes == 2 || a.Bytes == 4 || a.Bytes == 8
	}
	return false
}

// Part returns the n bytes of staging at offset at.
func (s *Shared) Part(at, n uint64) ([]byte, error) {
	if size := uint64(len(s.staging)); at > size || n > size-at {
		return nil, fmt.Errorf("%d bytes at %d do not lie in the staging memory of %d", n, at, size)
	}
	return s.staging[at : at+n : at+n], nil
}

// Refuse answers an Alloc or a Build, t, with a text, at offset at of staging in room bytes.
func (s *Shared) Refuse(t, at, room uint64, text string) {
	if p, err := s.Part(at, room); err == nil && room >= 4 {
		n := copy(p[4:], text)
		binary.NativeEndian.PutUint32(p, uint32(n))
	}
	binary.NativeEndian.PutUint32(s.slot(t)[slotStatus:], 1)
}

// Refused tells whether command t, an Alloc or Build that is done, was refused, and the text.
func (s *Shared) Refused(t, at, room uint64) (text string, refused bool) {
	if binary.NativeEndian.Uint32(s.slot(t)[slotStatus:]) == 0 {
		return "", false
	}
	p, err := s.Part(at, room)
	if err != nil || room < 4 {
		return "", true
	}
	n := min(uint64(binary.NativeEndian.Uint32(p)), room-4)
	return string(p[4 : 4+n]), true
}

// Param says what a parameter of a kernel takes: the bytes of a number, or one of the following.
type Param uint8

// Other parameters.
const (
	ParamUnknown Param = 0
	ParamMemory  Param = 255 // arrays and local memory
)

// SetParams stores what parameters the kernel of command t, a Build, has.
func (s *Shared) SetParams(t uint64, params []Param) {
	p := s.slot(t)
	binary.NativeEndian.PutUint64(p[slotBegin:], uint64(len(params))+1)
	told := uint64(0)
	if len(params) <= SlotBytes-slotArgs {
		told = 1
		for i, k := range params {
			p[slotArgs+i] = byte(k)
		}
	}
	binary.NativeEndian.PutUint64(p[slotEnd:], told)
}

// Params returns what SetParams has stored, or that it is not known. The command is done, and its slot not used again.
func (s *Shared) Params(t uint64) (params []Param, known bool) {
	p := s.slot(t)
	v := binary.NativeEndian.Uint64(p[slotBegin:])
	if v < 1 || v > 1<<20 {
		return nil, false
	}
	params = make([]Param, v-1)
	if binary.NativeEndian.Uint64(p[slotEnd:]) == 1 && len(params) <= SlotBytes-slotArgs {
		for i := range params {
			params[i] = Param(p[slotArgs+i])
		}
	}
	return params, true
}

// SetTimes stores when the kernel of command t ran.
func (s *Shared) SetTimes(t uint64, begin, end int64) {
	p := s.slot(t)
	binary.NativeEndian.PutUint64(p[slotBegin:], uint64(begin))
	binary.NativeEndian.PutUint64(p[slotEnd:], uint64(end))
}

// Times returns when the kernel of command t ran, in ns of CLOCK_MONOTONIC. The command is done, and its slot
// not used again.
func (s *Shared) Times(t uint64) (begin, end int64) {
	p := s.slot(t)
	return int64(binary.NativeEndian.Uint64(p[slotBegin:])), int64(binary.NativeEndian.Uint64(p[slotEnd:]))
}
