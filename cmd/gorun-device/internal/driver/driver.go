// Package driver says what a vendor's library has to do for an offload process: tell its devices, and
// work on one of them through a queue that keeps the order. Packages opencl and cuda do it.
//
// One goroutine that is locked to its thread uses a Queue, as CUDA's contexts belong to a thread.
// Calls that put work into the queue return before it is done unless they say otherwise. What fails
// later is returned by the next Finish.
package driver

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// Device is a device that may be opened.
type Device interface {
	Info() offload.Info
	// Open makes a context and a queue.
	Open() (Queue, error)
}

// Mem names a buffer in the memory of a device. Zero names none.
type Mem uintptr

// Queue is one device at work.
type Queue interface {
	// Alloc returns a new buffer. Its content is undefined. The error of a full device is ErrMemory.
	Alloc(size int64) (Mem, error)
	// Free gives a buffer back after the work in the queue is done with it.
	Free(Mem) error
	// Write puts a copy of src to a buffer in the queue. src stays as it is, and is kept, until Finish.
	Write(dst Mem, offset int64, src []byte) error
	// Read puts a copy from a buffer in the queue. dst is filled at Finish, and kept until then.
	Read(dst []byte, src Mem, offset int64) error
	// Copy puts a copy between two buffers, or within one where the parts do not overlap, in the queue.
	Copy(dst Mem, dstOffset int64, src Mem, srcOffset, size int64) error
	// Fill puts a fill with zeros in the queue.
	Fill(dst Mem, offset, size int64) error

	// Build compiles a program. An error of the compiler is a *BuildError.
	Build(source, options string) (Program, error)

	// Launch puts a run of a kernel in the queue. A nil local leaves the choice to the library. With
	// timed, the returned Event tells when the kernel ran; else it is nil.
	Launch(k Kernel, global, local []int, args []Arg, timed bool) (Event, error)
	// Flush has the device begin with what is in the queue.
	Flush() error
	// Finish waits until the queue is empty and returns the first error since the last one.
	Finish() error
	// Close gives everything back.
	Close() error
}

// Program is a compiled program.
type Program interface {
	// Kernel returns the kernel of that name. The error says which ones there are.
	Kernel(name string) (Kernel, error)
	Close() error
}

// Kernel is a function of a program.
type Kernel interface {
	Name() string
	// Params are the parameters that a launch has to give. CUDA's have no Local ones.
	Params() []Param
	Close() error
}

// Param describes a parameter of a kernel.
type Param struct {
	Name string
	Type string // as in the source, "float*"
	// Where it lies.
	Space Space
	// Bytes of a number; 0: unknown.
	Bytes int
	// Const says that the kernel only reads what a Global parameter points to.
	Const bool
}

// Space is where a parameter of a kernel lies.
type Space int

const (
	Unknown  Space = iota // the library does not tell
	Private               // a value
	Global                // a buffer
	Local                 // memory of a group of work items, of a size given at the launch
	Constant              // a buffer that is only read
)

func (s Space) String() string {
	return [...]string{"unknown", "private", "global", "local", "constant"}[s]
}

// Arg is an argument of a launch: a buffer, a value, or local memory of Local bytes.
type Arg struct {
	Mem   Mem
	Value []byte // in the order of the machine's bytes
	Local int64
}

// Event tells when a kernel ran.
type Event interface {
	// Times returns begin and end by the device's clock, after a Finish.
	Times() (begin, end time.Duration, err error)
	Close() error
}

// BuildError is what a compiler said.
type BuildError struct {
	Device string
	Log    string
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("the compiler for %s refuses the program:\n%s", e.Device, e.Log)
}

// ErrMemory says that the memory of a device is used up.
var ErrMemory = errors.New("out of memory of the device")

// Pinner is a Queue whose device reads and writes memory of this process by itself where that is pinned. Copies are right without, but slower.
type Pinner interface {
	Queue
	// Pin pins memory for as long as the Queue is open.
	Pin(memory []byte) error
}
