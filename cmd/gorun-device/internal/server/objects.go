package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// memory is a memory of the rank's on the device.
type memory struct {
	mem     driver.Mem
	size    uint64
	created uint64 // the command that did it
}

// kernel is a kernel of the rank's. Kernels of one text share its program.
type kernel struct {
	kernel  driver.Kernel
	name    string
	code    code
	created uint64
}

// code is what a compiler is given.
type code struct{ Source, Options string }

// program is a compiled text, and how many kernels are of it.
type program struct {
	program driver.Program
	users   int
}

// objects are all things on the device, by the numbers that the rank has given them. The worker changes them.
type objects struct {
	queue    driver.Queue
	used     *atomic.Int64 // bytes of memories
	memories map[uint64]*memory
	programs map[code]*program

	mu      sync.Mutex // guards kernels: others ask for names
	kernels map[uint64]*kernel

	args   []driver.Arg             // of the last run, for reuse
	values [offload.MaxArgs][8]byte // what they point to
}

func newObjects(used *atomic.Int64) *objects {
	return &objects{used: used, memories: map[uint64]*memory{}, programs: map[code]*program{}, kernels: map[uint64]*kernel{}}
}

// part returns the memory of a number, if offset and size lie in it.
func (o *objects) part(id, offset, size uint64) (*memory, error) {
	m := o.memories[id]
	if m == nil {
		return nil, fmt.Errorf("the device has no memory %d", id)
	}
	if offset > m.size || size > m.size-offset {
		return nil, fmt.Errorf("%d bytes at %d do not lie in memory %d of %d bytes", size, offset, id, m.size)
	}
	return m, nil
}

// alloc makes a memory full of zeros.
func (o *objects) alloc(id, size, ticket uint64) error {
	if o.memories[id] != nil || size == 0 || size > 1<<62 {
		return fmt.Errorf("no memory %d of %d bytes can be made: the number is taken, or the size impossible", id, size)
	}
	mem, err := o.queue.Alloc(int64(size))
	if err != nil {
		return err
	}
	// Some libraries take the device's memory only now.
	if err := errors.Join(o.queue.Fill(mem, 0, int64(size)), o.queue.Finish()); err != nil {
		return errors.Join(err, o.queue.Free(mem))
	}
	o.memories[id] = &memory{mem, size, ticket}
	o.used.Add(int64(size))
	return nil
}

func (o *objects) free(id uint64) error {
	m := o.memories[id]
	if m == nil {
		return fmt.Errorf("the device has no memory %d", id)
	}
	delete(o.memories, id)
	o.used.Add(-int64(m.size))
	return o.queue.Free(m.mem)
}

// build makes a kernel. A text that is compiled already is not compiled again.
func (o *objects) build(id uint64, name string, c code, ticket uint64) error {
	if o.kernels[id] != nil {
		return fmt.Errorf("there is a kernel %d already", id)
	}
	p := o.programs[c]
	if p == nil {
		built, err := o.queue.Build(c.Source, c.Options)
		if err != nil {
			return err
		}
		p = &program{program: built}
		o.programs[c] = p
	}
	k, err := p.program.Kernel(name)
	if err != nil {
		return errors.Join(err, o.release(c))
	}
	p.users++
	o.mu.Lock()
	o.kernels[id] = &kernel{k, name, c, ticket}
	o.mu.Unlock()
	return nil
}

// release closes a program that no kernel is of.
func (o *objects) release(c code) error {
	p := o.programs[c]
	if p.users > 0 {
		return nil
	}
	delete(o.programs, c)
	return p.program.Close()
}

func (o *objects) drop(id uint64) error {
	k := o.kernels[id]
	if k == nil {
		return fmt.Errorf("there is no kernel %d", id)
	}
	o.mu.Lock()
	delete(o.kernels, id)
	o.mu.Unlock()
	o.programs[k.code].users--
	return errors.Join(k.kernel.Close(), o.release(k.code))
}

// kernelName names a kernel to people.
func (o *objects) kernelName(id uint64) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.kernels[id]; k != nil {
		return k.name
	}
	return fmt.Sprintf("number %d", id)
}

// run launches a kernel.
func (o *objects) run(c *offload.Command) (driver.Event, error) {
	k, dims := o.kernels[c.A[0]], c.A[1]
	if k == nil {
		return nil, fmt.Errorf("there is no kernel %d", c.A[0])
	}
	if dims < 1 || dims > 3 {
		return nil, fmt.Errorf("kernel %s: %d dimensions; 1 to 3 are possible", k.name, dims)
	}
	if err := o.arguments(k, c.Args); err != nil {
		return nil, err
	}
	global, local := sizes(c.A[2:2+dims]), sizes(c.A[5:5+dims])
	if c.A[5] == 0 {
		local = nil
	}
	return o.queue.Launch(k.kernel, global, local, o.args, c.Flags&offload.Timed != 0)
}

// arguments makes o.args.
func (o *objects) arguments(k *kernel, args []offload.Arg) error {
	o.args = o.args[:0]
	for i, a := range args {
		switch a.Kind {
		case offload.ArgMemory:
			m := o.memories[a.Value]
			if m == nil {
				return fmt.Errorf("kernel %s, argument %d: the device has no memory %d", k.name, i, a.Value)
			}
			o.args = append(o.args, driver.Arg{Mem: m.mem})
		case offload.ArgScalar:
			value := &o.values[i]
			binary.NativeEndian.PutUint64(value[:], a.Value)
			o.args = append(o.args, driver.Arg{Value: scalar(value, int(a.Bytes))})
		case offload.ArgLocal:
			o.args = append(o.args, driver.Arg{Local: int64(a.Value)})
		}
	}
	return nil
}

// scalar returns the n bytes of a number that a machine of this byte order keeps for one so small.
func scalar(value *[8]byte, n int) []byte {
	var one [2]byte
	binary.NativeEndian.PutUint16(one[:], 1)
	if one[0] == 0 { // the most significant byte comes first
		return value[8-n:]
	}
	return value[:n]
}

func sizes(v []uint64) []int {
	n := make([]int, len(v))
	for i, x := range v {
		n[i] = int(min(x, 1<<62))
	}
	return n
}

// inOrder returns the numbers of things in the order in which they were made.
func inOrder[T any](things map[uint64]T, created func(T) uint64) []uint64 {
	ids := make([]uint64, 0, len(things))
	for id := range things {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint64) int { return int(created(things[a])) - int(created(things[b])) })
	return ids
}
