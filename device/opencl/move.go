package opencl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// present is the process, if there is one. Caller holds moving.
func (d *device) present() (*process, error) {
	if err := d.lost.Load(); err != nil {
		return nil, *err
	}
	if d.p == nil {
		return nil, errors.New("it is swapped out: Restore it first")
	}
	return d.p, nil
}

// Pause makes the process finish the commands that it has taken, and take no more. If ctx ends
// first, the device goes on, and the error tells what it was waiting for.
func (d *device) Pause(ctx context.Context) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	p, err := d.present()
	if err != nil {
		return err
	}
	attempt, err := p.order(offload.Order{Op: offload.OrderPause})
	if err != nil {
		return err
	}
	if _, err = p.answer(ctx, attempt); err == nil || ctx.Err() == nil {
		return err
	}
	short, cancel := context.WithTimeout(context.Background(), patience/10)
	defer cancel()
	if _, late := p.obey(short, offload.Order{Op: offload.OrderLate, Attempt: attempt}); late != nil {
		err = fmt.Errorf("%w: %w", late, err)
	}
	_, rerr := p.obey(short, offload.Order{Op: offload.OrderRevert})
	return errors.Join(err, rerr)
}

// mostSkipped is how many memories an order may name. What is not named is in the file without need.
const mostSkipped = 4096

func numbers(ms []provider.Memory) (skip []uint64) {
	for _, m := range ms[:min(len(ms), mostSkipped)] {
		skip = append(skip, uint64(m.(memory)))
	}
	return skip
}

// OnCapture has valid called when the agent of this rank captures the device with it.
func (d *device) OnCapture(valid func() []provider.Memory) { d.valid.Store(&valid) }

// skips are the memories that such a capture may leave out. They must not be left out of a ring
// that has commands which were not taken.
func (d *device) skips() []uint64 {
	if valid := d.valid.Load(); valid != nil {
		return numbers((*valid)())
	}
	return nil
}

// Capture makes the paused process write the device's memory to a file, except the memories to be
// skipped, which are zero after a restore. With end the process ends then. wait returns when the
// file is whole.
func (d *device) Capture(path string, end bool, skip []provider.Memory) (wait func(context.Context) error, err error) {
	d.moving.Lock()
	defer d.moving.Unlock()
	p, err := d.present()
	if err != nil {
		return nil, err
	}
	o := offload.Order{Op: offload.OrderCapture, Path: path, End: end, Skip: numbers(skip)}
	p.ending.Store(end)
	attempt, err := p.order(o)
	if err != nil {
		d.stays(p)
		return nil, err
	}
	return func(ctx context.Context) error { return d.captured(ctx, p, attempt, end) }, nil
}

// captured waits for the end of a capture. A capture that fails, or is not waited for any more, is
// discarded, and the device goes on.
func (d *device) captured(ctx context.Context, p *process, attempt uint32, end bool) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	_, err := p.answer(ctx, attempt)
	if err != nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience/10)
		defer cancel()
		if _, rerr := p.obey(short, offload.Order{Op: offload.OrderRevert}); rerr == nil {
			d.stays(p)
			return err
		}
		_, err = p.answer(short, attempt) // it may have ended well in between
	}
	if err != nil {
		d.stays(p)
		return err
	}
	if end {
		<-p.gone
		d.p = nil
	}
	return nil
}

// stays says that a process is not to end after all. If it has, that is its death.
func (d *device) stays(p *process) {
	p.ending.Store(false)
	select {
	case <-p.gone:
		d.ended(p)
	default:
	}
}

// GiveUp makes a device lost that is swapped out and cannot be restored: the waiting caller gets
// the reason.
func (d *device) GiveUp(why error) {
	err := fmt.Errorf("device %s: %w: %w", d.id(), provider.ErrLost, why)
	d.lost.CompareAndSwap(nil, &err)
}

// Resume has the process take commands.
func (d *device) Resume(ctx context.Context) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	p, err := d.present()
	if err != nil {
		return err
	}
	_, err = p.obey(ctx, offload.Order{Op: offload.OrderResume})
	return err
}

// Restore puts a new process for the device of that number behind the ring of a device that is swapped out. It holds what a capture does,
// and is paused.
func (d *device) Restore(ctx context.Context, path string, index int) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	if err := d.lost.Load(); err != nil {
		return *err
	}
	if d.p != nil {
		return errors.New("its offload process is there: Capture it with terminate first")
	}
	library, _, _ := strings.Cut(d.id(), ":")
	since := time.Now()
	d.s.Epoch().Add(1)
	p, err := begin(ctx, d, fmt.Sprintf("%s:%d", library, index), path)
	if err != nil {
		return fmt.Errorf("restoring on %s:%d after %v: %w", library, index, time.Since(since).Round(time.Millisecond), err)
	}
	d.p = p
	return nil
}
