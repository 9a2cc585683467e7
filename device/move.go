package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/device/provider"
)

// ErrFixed says that a device cannot be moved: what it has is in the memory of the program.
var ErrFixed = errors.New("the device cannot be moved")

// Snapshot is what was on a device: its kernels, and its memory as far as it is valid nowhere else. It is in a file, and belongs to the
// device that it was taken of.
type Snapshot struct {
	Path string
	of   *driver
	wait func(context.Context) error
}

// Wait returns when the file is whole. Errors: that of the capture, or ctx's if that ends first; the device goes on then.
func (s *Snapshot) Wait(ctx context.Context) error {
	if err := s.wait(ctx); err != nil {
		if s.of.named(err) {
			return fmt.Errorf("capture to %s: %w", s.Path, err)
		}
		return fmt.Errorf("device %s: capture to %s: %w", s.of.p.Info().ID, s.Path, err)
	}
	return nil
}

func (d *Device) mover(what string) (provider.Mover, error) {
	m, ok := d.d.p.(provider.Mover)
	if !ok {
		return nil, fmt.Errorf("device %s: %s: %w; devices of opencl can", d.name(), what, ErrFixed)
	}
	return m, nil
}

func (d *Device) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return d.of(fmt.Errorf("%s: %w", what, err))
}

// Pause returns when the device has finished all begun commands. It begins no more until Resume:
// kernels that are asked for meanwhile wait in order, and Run returns, until there are some
// hundred. What needs new memory on the device, or a compiler, waits. Where virtual devices are on
// it all of them pause. Errors: if ctx ends first, ctx's error with the kernel that runs, and the
// device goes on; ErrFixed.
func (d *Device) Pause(ctx context.Context) error {
	m, err := d.mover("pause")
	if err != nil {
		return err
	}
	return d.failed("pause", m.Pause(ctx))
}

// Capture begins to write what is on a device that is paused to a file, which appears at the path when it is whole. Arrays that are valid
// on the host are left out. With terminate the device gives all its memory back then, and has to be restored. Without, it
// may be resumed after Wait. Errors: ErrFixed; those of the process; later ones come with the Snapshot's Wait.
func (d *Device) Capture(ctx context.Context, path string, terminate bool) (*Snapshot, error) {
	m, err := d.mover("capture")
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, d.failed("capture", err)
	}
	wait, err := m.Capture(path, terminate, d.d.elsewhere())
	if err != nil {
		return nil, d.failed("capture", err)
	}
	return &Snapshot{path, d.d, wait}, nil
}

// elsewhere marks stale what is valid on the host, too, and returns its memory. It does so only if
// no command waits that may need it, and for arrays that are not in use.
func (d *driver) elsewhere() []provider.Memory {
	if !d.mu.TryLock() {
		return nil // the program has given more commands
	}
	defer d.mu.Unlock()
	var skip []provider.Memory
	if !d.p.Done(d.newest) {
		return nil
	}
	for r := range d.replicas {
		s := r.s.Value()
		if s == nil || !s.mu.TryLock() {
			continue
		}
		only := false
		for _, part := range r.valid {
			only = only || s.valid.lacks(part) != nil
		}
		if !only {
			r.valid = nil
			skip = append(skip, r.mem)
		}
		s.mu.Unlock()
	}
	return skip
}

// Resume has a device go on that is paused, captured or restored. Errors: ErrFixed; those of the process.
func (d *Device) Resume(ctx context.Context) error {
	m, err := d.mover("resume")
	if err != nil {
		return err
	}
	return d.failed("resume", m.Resume(ctx))
}

// Restore puts what a Snapshot holds on the device with that ID, of the same kind or another, which takes the place of the one that was captured with
// terminate; it is paused. Kernels are compiled again. Arrays and commands that wait go on as if nothing had happened. Errors: ErrNoDevice; ErrFixed; those of the
// process, after which another device may be tried.
func (d *Device) Restore(ctx context.Context, s *Snapshot, id string) error {
	m, err := d.mover("restore")
	if err != nil {
		return err
	}
	name, number, _ := strings.Cut(id, ":")
	mine, _, _ := strings.Cut(d.d.p.Info().ID, ":")
	index, err := strconv.Atoi(number)
	if err != nil || name != mine {
		return d.failed("restore", fmt.Errorf("%w: %q is no device of %s", ErrNoDevice, id, mine))
	}
	if s.of != d.d {
		return d.failed("restore", fmt.Errorf("%w: the snapshot is of another device", ErrArgument))
	}
	return d.failed("restore", m.Restore(ctx, s.Path, index))
}

// SwapOut pauses a device, captures it to a file and gives its memory back. Errors: as Pause, Capture and Wait; the device goes on then.
func (d *Device) SwapOut(ctx context.Context, path string) (*Snapshot, error) {
	if err := d.Pause(ctx); err != nil {
		return nil, err
	}
	s, err := d.Capture(ctx, path, true)
	if err != nil {
		return nil, errors.Join(err, d.Resume(context.WithoutCancel(ctx)))
	}
	if err := s.Wait(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// SwapIn restores a Snapshot on the device with that ID, and resumes it. Errors: as Restore and Resume.
func (d *Device) SwapIn(ctx context.Context, s *Snapshot, id string) error {
	if err := d.Restore(ctx, s, id); err != nil {
		return err
	}
	return d.Resume(context.WithoutCancel(ctx)) // at once: the process is there
}

// Migrate moves a device to the one with that ID, by way of a file in the folder for temporary files. If that device cannot take it,
// it goes on where it was; if that one does not take it back, it is lost. Errors: as SwapOut and SwapIn; ErrLost.
func (d *Device) Migrate(ctx context.Context, id string) error {
	m, err := d.mover("migrate")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "gorun-device")
	if err != nil {
		return d.failed("migrate", err)
	}
	defer os.RemoveAll(folder)
	from := d.d.p.Info().ID
	s, err := d.SwapOut(ctx, filepath.Join(folder, "capture"))
	if err != nil {
		return err
	}
	err = d.SwapIn(ctx, s, id)
	if err == nil {
		return nil
	}
	if back := d.SwapIn(context.WithoutCancel(ctx), s, from); back != nil {
		m.GiveUp(back)
		err = errors.Join(err, fmt.Errorf("%w: %w", ErrLost, back))
	}
	return err
}
