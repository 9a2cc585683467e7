// Package smoke tries a device: whether kernels compute what they should, how long launches and copies take with the library in
// this process, and how long through an offload process, in turns. It is for machines with accelerators that
// no test has seen.
package smoke

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/device/provider"
)

// sources are the kernels, by their language, which has the name of the library.
var sources = map[string]string{"opencl": `
__kernel void empty(__global uint *x) {
}

__kernel void scale(__global uint *x) {
	size_t i = get_global_id(0);
	x[i] = x[i] * 3u + (uint)i;
}

__kernel void busy(__global uint *x) {
	size_t i = get_global_id(0);
	uint v = x[i];
	for (uint n = 0; n < 2000000u; n++)
		v = v * 1664525u + (v >> 16);
	x[i] = v;
}
`, "cuda": `
extern "C" __global__ void empty(unsigned *x) {
}

extern "C" __global__ void scale(unsigned *x) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	x[i] = x[i] * 3u + i;
}

extern "C" __global__ void busy(unsigned *x) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned v = x[i];
	for (unsigned n = 0; n < 2000000u; n++)
		v = v * 1664525u + (v >> 16);
	x[i] = v;
}
`}

// side is a way to use a device: in this process, or through another.
type side interface {
	launch(kernel string) error // with the memory
	write(p []byte) error       // to the memory
	read(p []byte) error
	wait() error // for all before
}

// InProcess is the library here.
type InProcess struct {
	q        driver.Queue
	language string
	mem      driver.Mem
	kernels  map[string]driver.Kernel
}

// NewInProcess prepares a memory, and kernels.
func NewInProcess(q driver.Queue, language string) (*InProcess, error) {
	s, err := newInProcess(q, language)
	if err != nil {
		return nil, fmt.Errorf("in process: %w", err)
	}
	return s, nil
}

func newInProcess(q driver.Queue, language string) (*InProcess, error) {
	s := &InProcess{q: q, language: language, kernels: map[string]driver.Kernel{}}
	p, err := q.Build(sources[language], "")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"empty", "scale", "busy"} {
		if s.kernels[name], err = p.Kernel(name); err != nil {
			return nil, err
		}
	}
	s.mem, err = q.Alloc(bytes)
	return s, err
}

func (s *InProcess) launch(kernel string) error {
	_, err := s.q.Launch(s.kernels[kernel], []int{items}, []int{group}, []driver.Arg{{Mem: s.mem}}, false)
	return err
}

func (s *InProcess) write(p []byte) error { return s.q.Write(s.mem, 0, p) }
func (s *InProcess) read(p []byte) error  { return s.q.Read(p, s.mem, 0) }
func (s *InProcess) wait() error          { return s.q.Finish() }

// through is the offload process.
type through struct {
	d       provider.Device
	mem     provider.Memory
	kernels map[string]provider.Kernel
	last    provider.Ticket
}

func newThrough(d provider.Device, language string) (*through, error) {
	s := &through{d: d, kernels: map[string]provider.Kernel{}}
	var err error
	for _, name := range []string{"empty", "scale", "busy"} {
		if s.kernels[name], err = d.Build([]provider.Body{{Language: language, Name: name, Source: sources[language]}}); err != nil {
			return nil, err
		}
	}
	s.mem, err = d.Alloc(bytes)
	return s, err
}

func (s *through) launch(kernel string) (err error) {
	s.last, err = s.d.Run(s.kernels[kernel], []int{items}, []int{group}, []provider.Arg{{Kind: provider.InMemory, Memory: s.mem}})
	return err
}

func (s *through) write(p []byte) (err error) { s.last, err = s.d.Write(s.mem, 0, p); return err }
func (s *through) read(p []byte) (err error)  { s.last, err = s.d.Read(p, s.mem, 0); return err }
func (s *through) wait() error                { _, err := s.d.Wait(context.Background(), s.last); return err }

const (
	items = 64 // of a kernel
	group = 16
	many  = 1000     // launches at once
	bytes = 16 << 20 // of a copy
	turns = 5
)

// Run tries the device that both here and d are, and prints what it finds. Errors: what went wrong, first of all a wrong result.
func Run(here *InProcess, d provider.Device, out io.Writer) error {
	d.(provider.Timer).SetTimed(false) // as in this process
	there, err := newThrough(d, here.language)
	if err != nil {
		return fmt.Errorf("through an offload process: %w", err)
	}
	defer d.Free(there.mem) // else Moves would capture it
	if err := right(here); err != nil {
		return fmt.Errorf("in process: %w", err)
	}
	if err := right(there); err != nil {
		return fmt.Errorf("through an offload process: %w", err)
	}
	fmt.Fprintln(out, "kernels compute what they should, both ways")
	fmt.Fprintf(out, "%-34s %12s %12s %7s\n", "medians, in turns", "in process", "through", "ratio")
	p := make([]byte, bytes)
	for _, m := range []measurement{
		{"launch and wait", 100, 1, func(s side) error { return errors.Join(s.launch("empty"), s.wait()) }},
		{"launch, 1000 at once, each", 1, many, launches},
		{"write 16 MB", 1, 1, func(s side) error { return errors.Join(s.write(p), s.wait()) }},
		{"read 16 MB", 1, 1, func(s side) error { return errors.Join(s.read(p), s.wait()) }},
	} {
		if err := m.print(out, here, there); err != nil {
			return err
		}
	}
	return nil
}

// right runs a kernel and compares.
func right(s side) error {
	p, want := make([]byte, 4*items), make([]byte, 4*items)
	for i := range uint32(items) {
		binary.NativeEndian.PutUint32(p[4*i:], 7*i)
		binary.NativeEndian.PutUint32(want[4*i:], 7*i*3+i)
	}
	if err := errors.Join(s.write(p), s.launch("scale"), s.read(p), s.wait()); err != nil {
		return err
	}
	if !slices.Equal(p, want) {
		return fmt.Errorf("the kernel has made %v, want %v", p, want)
	}
	return nil
}

func launches(s side) error {
	for range many {
		if err := s.launch("empty"); err != nil {
			return err
		}
	}
	return s.wait()
}

// measurement is something that both sides do.
type measurement struct {
	name  string
	calls int // of do, in a turn
	does  int // things in a call; the time is for each
	do    func(side) error
}

// turn returns how long one thing takes.
func (m measurement) turn(s side) (time.Duration, error) {
	begin := time.Now()
	for range m.calls {
		if err := m.do(s); err != nil {
			return 0, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return time.Since(begin) / time.Duration(m.calls*m.does), nil
}

// print does it in turns: a first one that is not counted, as libraries compile then, and turns that are.
func (m measurement) print(out io.Writer, here, there side) error {
	var took [2][]time.Duration
	for turn := range turns + 1 {
		for i, s := range []side{here, there} {
			t, err := m.turn(s)
			if err != nil {
				return err
			}
			if turn > 0 {
				took[i] = append(took[i], t)
			}
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	a, b := took[0][turns/2], took[1][turns/2]
	_, err := fmt.Fprintf(out, "%-34s %12v %12v %7.2f\n", m.name, a, b, float64(b)/float64(a))
	return err
}
