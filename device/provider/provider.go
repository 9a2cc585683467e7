// Package provider is what package device asks of a kind of device: OpenCL's, or goroutines. Programs use package
// device.
//
// A Device takes commands and carries them out as if one after the other. Each has a Ticket, counted from 1. A
// command that fails stops its device: the commands after it have no effect, and each Wait for one of them returns the error of the
// first. (Build and Alloc are waited for, and their failures stop nothing.)
package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of devices, for errors.Is.
var (
	ErrArgument = errors.New("wrong argument")
	ErrNoBody   = errors.New("the kernel has no body for this device")
	ErrMemory   = errors.New("out of device memory")
	ErrKernel   = errors.New("kernel failed")
	ErrClosed   = errors.New("device closed")

	// ErrLost is the death of an offload process. It is no decision of the program: mpi.Run sees that by its method.
	ErrLost error = lost{}
)

type lost struct{}

func (lost) Error() string { return "device lost" }
func (lost) Lost() bool    { return true }

// Kind tells what a device is.
type Kind string

// Kinds of devices.
const (
	CPU         Kind = "cpu"
	GPU         Kind = "gpu"
	Accelerator Kind = "accelerator"
)

// Info describes a device.
type Info struct {
	ID       string `json:"id,omitempty"` // "cpu:0": the provider and a number
	Kind     Kind   `json:"kind"`
	Name     string `json:"name"`
	Platform string `json:"platform"` // the library that drives it
	Version  string `json:"version"`
	Memory   uint64 `json:"memory"`   // in bytes
	Units    int    `json:"units"`    // compute units
	Clock    int    `json:"clock"`    // MHz; 0: unknown
	MaxGroup int    `json:"maxGroup"` // items of a group at most
	Double   bool   `json:"double"`   // kernels may use float64
}

// Provider finds and opens devices of one kind.
type Provider interface {
	Name() string     // as in the IDs of its devices
	Language() string // of the bodies that its devices run
	List() ([]Info, error)
	Open(index int) (Device, error) // of what List returns
}

// Ticket is the number of a command of a device.
type Ticket uint64

// Memory and Kernel are a device's own.
type (
	Memory any
	Kernel any
)

// Timer is a Device whose kernels need not be timed.
type Timer interface {
	Device
	SetTimed(bool) // of the kernels that are run from now on; any goroutine
}

// Checker is a Kernel that knows what arguments it takes, as far as its compiler tells.
type Checker interface {
	Check(args []Arg) error // ErrArgument
}

// Times of a command.
type Times struct {
	Start, End time.Time // zero: not measured
}

// Device is an opened one. Commands (Write, Read, Copy, Run) return when they are queued. One goroutine at a time calls
// commands, Build, Alloc and Free; Done, Wait and Close may be called by any.
type Device interface {
	Info() Info
	Build(bodies []Body) (Kernel, error) // *BuildError, ErrNoBody
	Alloc(bytes int) (Memory, error)     // of zeros; ErrMemory
	Free(Memory)                         // once the commands before it are over
	Write(dst Memory, off int, src []byte) (Ticket, error)
	Read(dst []byte, src Memory, off int) (Ticket, error)
	Copy(dst Memory, doff int, src Memory, soff, n int) (Ticket, error)
	Run(k Kernel, global, local []int, args []Arg) (Ticket, error) // local nil: the device chooses
	Done(Ticket) bool
	Wait(context.Context, Ticket) (Times, error)
	Close() error // after the commands that run
}

// Mover is a Device whose content can be put on another one. Its methods may be called by any goroutine, also while a command waits
// for room.
type Mover interface {
	Device
	Pause(context.Context) error
	Capture(path string, terminate bool, skip []Memory) (wait func(context.Context) error, err error)
	Resume(context.Context) error
	Restore(ctx context.Context, path string, index int) error
	GiveUp(why error) // it is swapped out for good: ErrLost
	// OnCapture has valid called when the device is captured with the program. It makes stale what is valid at the host, too, and returns
	// these memories.
	OnCapture(valid func() []Memory)
}

// Body is a kernel for one kind of device.
type Body struct {
	Language string // "go", "opencl", "cuda"
	Name     string
	Source   string // "opencl", "cuda"
	Options  string // of the compiler
	Func     any    // "go": func(Work, ...)
}

// ArgKind tells what an argument is.
type ArgKind uint32

// Kinds of arguments.
const (
	InMemory ArgKind = 1 + iota // Memory
	Scalar                      // a number of Size bytes, its bits in Value
	Local                       // Size bytes that a group has in common
)

// Arg is an argument of a kernel.
type Arg struct {
	Kind   ArgKind
	Memory Memory
	Value  uint64
	Size   int
}

// BuildError is a kernel that a device cannot compile.
type BuildError struct {
	Kernel string
	Device string
	Log    string // the compiler's words, with lines of the source
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("device %s: kernel %s does not compile:\n%s", e.Device, e.Kernel, e.Log)
}

// Work is the part of a kernel's items that one call of a Go body computes: a box of whole groups.
type Work struct {
	From, To [3]int // of each dimension: the first item, the one after the last
	Global   [3]int // all items; 1 in dimensions that are not used
	Local    [3]int // a group
}

// Range returns the items of a dimension: from and the one after the last.
func (w Work) Range(dim int) (from, to int) { return w.From[dim], w.To[dim] }
