package opencl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// device is the rank's end of a ring. The process behind it may be replaced.
type device struct {
	number uint64 // of its processes, to the agent
	alone  bool   // they are children of this program: under gorun, too, if it was opened before mpi.Init
	about  atomic.Pointer[provider.Info]
	valid  atomic.Pointer[func() []provider.Memory] // see OnCapture

	moving sync.Mutex // held by who pauses, captures, restores, resumes or closes
	p      *process   // nil: swapped out
	file   *os.File   // the ring's

	mapped sync.RWMutex // held to read by who uses s or mem; Close unmaps
	s      *offload.Shared
	mem    []byte
	lost   atomic.Pointer[error] // why nothing more comes: the process has died, or the device was closed

	untimed atomic.Bool // kernels do not tell when they ran

	put  uint64          // newest ticket; of the caller of commands
	next offload.Command // the one that is being put; its memory is used again
	last uint64          // newest number of a memory or kernel
	room staging
}

var lastDevice atomic.Uint64

// start makes a ring with a process behind it. How long that may take is limited by who starts it, and by the process itself (see offload.OpenLimit).
func start(id string) (*device, error) {
	f, err := offload.NewFile()
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	d := &device{number: lastDevice.Add(1), file: f}
	if err := d.share(int(f.Fd())); err != nil {
		d.file.Close()
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	d.s.Epoch().Add(1)
	if d.p, err = begin(context.Background(), d, id, ""); err != nil {
		d.file.Close()
		unix.Munmap(d.mem)
		return nil, err
	}
	return d, nil
}

// share maps the file that both sides have.
func (d *device) share(fd int) error {
	mem, err := unix.Mmap(fd, 0, offload.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if d.s, err = offload.Format(mem); err != nil {
		unix.Munmap(mem)
		return err
	}
	d.mem = mem
	d.room.all = d.s.Staging()
	return nil
}

// ended is called when a process has. If it was not told to, the device is lost.
func (d *device) ended(p *process) {
	if p.ending.Load() {
		return
	}
	err := fmt.Errorf("device %s: %w: its offload process, pid %d, has ended (%v): restart from a checkpoint, or close it and open it anew", d.id(), provider.ErrLost, p.pid.Load(), p.how)
	d.lost.CompareAndSwap(nil, &err)
}

func (d *device) Info() provider.Info { return *d.about.Load() }

func (d *device) id() string { return d.about.Load().ID }

// Close waits for the commands that were put, and ends the process. What a device that is paused or swapped out has not begun is dropped; commands
// that wait for it return ErrClosed.
func (d *device) Close() error {
	d.moving.Lock()
	defer d.moving.Unlock()
	if e := d.lost.Load(); e != nil && errors.Is(*e, provider.ErrClosed) {
		return nil
	}
	if d.p != nil && d.s.State() == offload.Running {
		d.await(d.s.Tail())
	}
	closed := fmt.Errorf("device %s: %w", d.id(), provider.ErrClosed)
	d.lost.Store(&closed)
	if d.p != nil {
		d.p.end()
	}
	d.mapped.Lock()
	defer d.mapped.Unlock()
	d.s = nil
	return errors.Join(unix.Munmap(d.mem), d.file.Close())
}
