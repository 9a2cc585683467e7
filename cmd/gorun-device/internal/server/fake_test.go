package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// fake is a device in memory. A program is a list of names of kernels: "add" adds its second argument, a byte, to each byte of its
// first; "spin" runs until the test lets it end; "break" fails, and with it all that follows, as on a device of CUDA.
type fake struct {
	mem      map[driver.Mem][]byte
	next     driver.Mem
	queue    []func()
	room     int64
	built    int           // programs that there are
	compiled []string      // sources, in the order in which they were
	spins    chan struct{} // each value ends a spin
	reads    chan struct{} // if not nil, each value lets a read happen
	spinning chan struct{} // told when one begins
	bad      error         // a kernel has failed
}

func newFake() *fake {
	return &fake{mem: map[driver.Mem][]byte{}, room: 1 << 30, spins: make(chan struct{}), spinning: make(chan struct{}, 1)}
}

func (f *fake) later(work func()) error {
	f.queue = append(f.queue, work)
	return f.bad
}

func (f *fake) Alloc(size int64) (driver.Mem, error) {
	if size > f.room {
		return 0, fmt.Errorf("%d bytes: %w", size, driver.ErrMemory)
	}
	f.room -= size
	f.next++
	f.mem[f.next] = []byte(strings.Repeat("x", int(size)))
	return f.next, nil
}

func (f *fake) Free(m driver.Mem) error {
	f.Finish() // as CUDA's
	f.room += int64(len(f.mem[m]))
	delete(f.mem, m)
	return f.bad
}

func (f *fake) Write(dst driver.Mem, offset int64, src []byte) error {
	return f.later(func() { copy(f.mem[dst][offset:], src) })
}

func (f *fake) Read(dst []byte, src driver.Mem, offset int64) error {
	return f.later(func() {
		if f.reads != nil {
			<-f.reads
		}
		copy(dst, f.mem[src][offset:])
	})
}

func (f *fake) Copy(dst driver.Mem, dstOffset int64, src driver.Mem, srcOffset, size int64) error {
	return f.later(func() { copy(f.mem[dst][dstOffset:], f.mem[src][srcOffset:][:size]) })
}

func (f *fake) Fill(dst driver.Mem, offset, size int64) error {
	return f.later(func() { clear(f.mem[dst][offset:][:size]) })
}

func (f *fake) Flush() error { return nil }

func (f *fake) Finish() error {
	for _, work := range f.queue {
		work()
	}
	f.queue = nil
	return f.bad
}

func (f *fake) Close() error { return nil }

func (f *fake) Build(source, options string) (driver.Program, error) {
	if strings.Contains(source, "wrong") {
		return nil, &driver.BuildError{Device: "fake", Log: "line 1: wrong"}
	}
	f.built++
	f.compiled = append(f.compiled, source+options)
	return &fakeProgram{f, strings.Fields(source)}, nil
}

func (f *fake) Launch(k driver.Kernel, global, local []int, args []driver.Arg, timed bool) (driver.Event, error) {
	switch k.Name() {
	case "add":
		m, n := args[0].Mem, args[1].Value[0]
		f.later(func() {
			for i := range f.mem[m] {
				f.mem[m][i] += n
			}
		})
	case "spin":
		f.later(func() { f.spinning <- struct{}{}; <-f.spins })
	case "break":
		f.later(func() { f.bad = errors.New("a bad address") })
	}
	if !timed {
		return nil, nil
	}
	return fakeEvent{}, nil
}

type fakeEvent struct{}

func (fakeEvent) Times() (begin, end time.Duration, err error) {
	return 5 * time.Second, 7 * time.Second, nil
}
func (fakeEvent) Close() error { return nil }

type fakeProgram struct {
	f     *fake
	names []string
}

func (p *fakeProgram) Kernel(name string) (driver.Kernel, error) {
	for _, n := range p.names {
		if n == name {
			return fakeKernel(name), nil
		}
	}
	return nil, errors.New("no kernel of this name")
}

func (p *fakeProgram) Close() error { p.f.built--; return nil }

type fakeKernel string

func (k fakeKernel) Name() string           { return string(k) }
func (k fakeKernel) Params() []driver.Param { return nil }
func (k fakeKernel) Close() error           { return nil }
