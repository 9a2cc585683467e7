package opencl

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// memory is a number that this side has chosen.
type memory uint64

// enter keeps the ring mapped for a command, until mapped.RUnlock. Close unmaps it. The error is why the device takes no more.
func (d *device) enter() error {
	d.mapped.RLock()
	if err := d.lost.Load(); err != nil {
		d.mapped.RUnlock()
		return *err
	}
	return nil
}

// ready waits until ticket t has a slot.
func (d *device) ready(t uint64) error {
	if err := d.lost.Load(); err != nil {
		return *err
	}
	if room := d.s.Room(); t > room {
		return d.await(t - room)
	}
	return nil
}

// submit puts a command.
func (d *device) submit(c *offload.Command) (uint64, error) {
	t := d.put + 1
	if err := d.ready(t); err != nil {
		return 0, err
	}
	if err := d.s.Put(t, c); err != nil {
		return 0, err
	}
	d.put = t
	d.s.PutTail(t)
	return t, nil
}

// place takes room of staging for the next command.
func (d *device) place(n int, dst []byte) (at int, err error) {
	for {
		at, wait := d.room.take(d.put+1, n, dst)
		if wait == 0 {
			return at, nil
		}
		if err := d.await(wait); err != nil {
			return 0, err
		}
	}
}

// await returns when command t is done, with or without effect.
func (d *device) await(t uint64) error { return d.wait(context.Background(), t) }

func (d *device) wait(ctx context.Context, t uint64) error {
	for {
		done := d.s.Done()
		d.room.settle(done) // what has come is copied while the rest comes
		if done >= t {
			return nil
		}
		if err := d.lost.Load(); err != nil {
			return *err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d.s.WaitDone(done)
	}
}

// failure is that of the device, if it has one at command t.
func (d *device) failure(t uint64) error {
	if at, text := d.s.Failed(); at != 0 && at <= t {
		return fmt.Errorf("device %s: %w: %s", d.id(), provider.ErrKernel, text)
	}
	return nil
}

func (d *device) Done(t provider.Ticket) bool {
	d.mapped.RLock()
	defer d.mapped.RUnlock()
	return d.lost.Load() != nil || d.s.Done() >= uint64(t)
}

func (d *device) Wait(ctx context.Context, ticket provider.Ticket) (provider.Times, error) {
	d.mapped.RLock()
	defer d.mapped.RUnlock()
	if d.s == nil {
		return provider.Times{}, *d.lost.Load()
	}
	t := uint64(ticket)
	if err := d.wait(ctx, t); err != nil {
		return provider.Times{}, err
	}
	if err := d.failure(t); err != nil {
		return provider.Times{}, err
	}
	return d.times(t), nil
}

// times are those of a command, if its slot still has them.
func (d *device) times(t uint64) provider.Times {
	if t == 0 {
		return provider.Times{}
	}
	begin, end := d.s.Times(t)
	if d.s.Tail()+1-t >= d.s.Room() || begin == 0 {
		return provider.Times{}
	}
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	wall := time.Now()
	ago := func(ns int64) time.Time { return wall.Add(time.Duration(ns - now.Nano())) }
	return provider.Times{Start: ago(begin), End: ago(end)}
}

func (d *device) Write(dst provider.Memory, off int, src []byte) (provider.Ticket, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.mapped.RUnlock()
	t := d.put
	for len(src) > 0 {
		n := min(len(src), segment)
		at, err := d.place(n, nil)
		if err != nil {
			return 0, err
		}
		copy(d.room.all[at:], src[:n])
		if t, err = d.submit(&offload.Command{Op: offload.Write, A: [8]uint64{uint64(dst.(memory)), uint64(off), uint64(n), uint64(at)}}); err != nil {
			return 0, err
		}
		src, off = src[n:], off+n
	}
	return provider.Ticket(t), nil
}

func (d *device) Read(dst []byte, src provider.Memory, off int) (provider.Ticket, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.mapped.RUnlock()
	t := d.put
	for len(dst) > 0 {
		n := min(len(dst), segment)
		at, err := d.place(n, dst[:n])
		if err != nil {
			return 0, err
		}
		if t, err = d.submit(&offload.Command{Op: offload.Read, A: [8]uint64{uint64(src.(memory)), uint64(off), uint64(n), uint64(at)}}); err != nil {
			return 0, err
		}
		dst, off = dst[n:], off+n
	}
	return provider.Ticket(t), nil
}

func (d *device) Copy(dst provider.Memory, doff int, src provider.Memory, soff, n int) (provider.Ticket, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.mapped.RUnlock()
	t, err := d.submit(&offload.Command{Op: offload.Copy, A: [8]uint64{uint64(dst.(memory)), uint64(doff), uint64(src.(memory)), uint64(soff), uint64(n)}})
	return provider.Ticket(t), err
}

// Run puts no command where there are no items, because OpenCL has none for that.
func (d *device) Run(k provider.Kernel, global, local []int, args []provider.Arg) (provider.Ticket, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.mapped.RUnlock()
	c := &d.next
	*c = offload.Command{Op: offload.Run, Args: append(c.Args[:0], make([]offload.Arg, len(args))...)}
	if !d.untimed.Load() {
		c.Flags = offload.Timed
	}
	c.A[0], c.A[1] = k.(*kernel).id, uint64(len(global))
	for i, g := range global {
		if g == 0 {
			return provider.Ticket(d.put), nil
		}
		c.A[2+i] = uint64(g)
	}
	for i, l := range local {
		c.A[5+i] = uint64(l)
	}
	for i, a := range args {
		switch a.Kind {
		case provider.InMemory:
			c.Args[i] = offload.Arg{Kind: offload.ArgMemory, Value: uint64(a.Memory.(memory))}
		case provider.Local:
			c.Args[i] = offload.Arg{Kind: offload.ArgLocal, Value: uint64(a.Size)}
		default:
			c.Args[i] = offload.Arg{Kind: offload.ArgScalar, Bytes: uint32(a.Size), Value: a.Value}
		}
	}
	t, err := d.submit(c)
	return provider.Ticket(t), err
}

// SetTimed says whether kernels tell when they ran.
func (d *device) SetTimed(on bool) { d.untimed.Store(!on) }
