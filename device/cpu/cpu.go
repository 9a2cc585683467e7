// Package cpu is the device that is always there: kernels with Go bodies run on goroutines of the process, in memory of
// its own. A whole-process image therefore holds it with the kernels that run. Programs use package device.
package cpu

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/device/provider"
)

// Provider has one device, cpu:0.
type Provider struct{}

// Name of the provider.
func (Provider) Name() string { return "cpu" }

// Language is Go.
func (Provider) Language() string { return "go" }

// List returns the device.
func (Provider) List() ([]provider.Info, error) { return []provider.Info{info()}, nil }

func info() provider.Info {
	return provider.Info{
		ID: "cpu:0", Kind: provider.CPU, Name: "goroutines", Platform: "Go", Version: runtime.Version(),
		Memory: memory(), Units: runtime.GOMAXPROCS(0), MaxGroup: 1 << 20, Double: true,
	}
}

// Open returns a new device with a queue of its own.
func (Provider) Open(index int) (provider.Device, error) {
	if index != 0 {
		return nil, fmt.Errorf("device cpu:%d: there is only cpu:0", index)
	}
	d := &device{}
	d.cond.L = &d.mu
	return d, nil
}

// device carries out its commands on one goroutine, which is there while there are commands.
type device struct {
	mu      sync.Mutex
	cond    sync.Cond
	queue   []func() error
	put     provider.Ticket
	done    provider.Ticket
	bad     provider.Ticket // the command that failed first; 0: none
	err     error           // its error
	busy    bool            // the goroutine is there
	closed  bool
	started [recent]time.Time
	ended   [recent]time.Time
}

// recent is the number of commands whose times are kept.
const recent = 1024

// memoryOf is a device's memory: words, so that any element is aligned.
type memoryOf struct {
	words []uint64
	size  int
}

func (m *memoryOf) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.words))), m.size)
}

func (d *device) Info() provider.Info { return info() }

func (d *device) Alloc(bytes int) (provider.Memory, error) {
	if limit := memory(); uint64(bytes) > limit {
		return nil, fmt.Errorf("device cpu:0: %w: %d bytes are asked for, the machine has %d", provider.ErrMemory, bytes, limit)
	}
	return &memoryOf{make([]uint64, (bytes+7)/8), bytes}, nil
}

// Free leaves the memory to the garbage collector.
func (d *device) Free(provider.Memory) {}

// kernel is a Go body.
type kernel struct {
	name string
	f    reflect.Value
}

func (d *device) Build(bodies []provider.Body) (provider.Kernel, error) {
	for _, b := range bodies {
		if b.Language == "go" {
			return &kernel{b.Name, reflect.ValueOf(b.Func)}, nil
		}
	}
	return nil, fmt.Errorf("%w: add one with device.Go, or choose a device of OpenCL (it needs the command gorun-device) by GORUN_DEVICE", provider.ErrNoBody)
}

// Write copies src at once if nothing is under way, else it keeps a copy.
func (d *device) Write(dst provider.Memory, off int, src []byte) (provider.Ticket, error) {
	to := dst.(*memoryOf).bytes()[off:][:len(src)]
	if d.idle() {
		copy(to, src)
		return d.submit(func() error { return nil })
	}
	kept := append([]byte(nil), src...)
	return d.submit(func() error { copy(to, kept); return nil })
}

func (d *device) Read(dst []byte, src provider.Memory, off int) (provider.Ticket, error) {
	from := src.(*memoryOf).bytes()[off:][:len(dst)]
	return d.submit(func() error { copy(dst, from); return nil })
}

func (d *device) Copy(dst provider.Memory, doff int, src provider.Memory, soff, n int) (provider.Ticket, error) {
	to, from := dst.(*memoryOf).bytes()[doff:][:n], src.(*memoryOf).bytes()[soff:][:n]
	return d.submit(func() error { copy(to, from); return nil })
}

func (d *device) Run(k provider.Kernel, global, local []int, args []provider.Arg) (provider.Ticket, error) {
	l := &launch{kernel: k.(*kernel), args: append([]provider.Arg(nil), args...)}
	if err := l.shape(global, local); err != nil {
		return 0, err
	}
	return d.submit(l.run)
}

func (d *device) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done == d.put && d.bad == 0
}

// submit queues a command.
func (d *device) submit(f func() error) (provider.Ticket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, fmt.Errorf("device cpu:0: %w", provider.ErrClosed)
	}
	d.put++
	d.queue = append(d.queue, f)
	if !d.busy {
		d.busy = true
		go d.work()
	}
	return d.put, nil
}

// work carries out commands until there are none.
func (d *device) work() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 {
		todo := d.queue
		d.queue = nil
		for _, f := range todo {
			t := d.done + 1
			if d.bad == 0 {
				d.mu.Unlock()
				start := time.Now()
				err := f()
				end := time.Now()
				d.mu.Lock()
				d.started[t%recent], d.ended[t%recent] = start, end
				if err != nil {
					d.bad, d.err = t, err
				}
			}
			d.done = t
			d.cond.Broadcast()
		}
	}
	d.busy = false
}

func (d *device) Done(t provider.Ticket) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done >= t
}

func (d *device) Wait(ctx context.Context, t provider.Ticket) (provider.Times, error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.cond.Broadcast()
		})
		defer stop()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.done < t {
		if err := ctx.Err(); err != nil {
			return provider.Times{}, err
		}
		d.cond.Wait()
	}
	if d.bad != 0 && t >= d.bad {
		return provider.Times{}, d.err
	}
	if d.done-t >= recent {
		return provider.Times{}, nil
	}
	return provider.Times{Start: d.started[t%recent], End: d.ended[t%recent]}, nil
}

// Close waits for the commands that were queued.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for d.done < d.put {
		d.cond.Wait()
	}
	return nil
}
