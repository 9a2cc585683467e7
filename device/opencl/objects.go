package opencl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// textRoom is the room for what a compiler says, in bytes.
const textRoom = 64 << 10

// ask puts a command that may be refused, with its text at a place of staging, and waits for the answer.
func (d *device) ask(c *offload.Command, at, room int) (text string, refused bool, err error) {
	t, err := d.submit(c)
	if err == nil {
		err = d.await(t)
	}
	if err == nil {
		err = d.failure(t)
	}
	if err != nil {
		return "", false, err
	}
	text, refused = d.s.Refused(t, uint64(at), uint64(room))
	return text, refused, nil
}

// Alloc gets memory. None of it is empty, because OpenCL has no such.
func (d *device) Alloc(bytes int) (provider.Memory, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.mapped.RUnlock()
	const room = 4 << 10
	at, err := d.place(room, nil)
	if err != nil {
		return nil, err
	}
	d.last++
	m := memory(d.last)
	text, refused, err := d.ask(&offload.Command{Op: offload.Alloc, A: [8]uint64{uint64(m), uint64(max(bytes, 8)), 0, uint64(at), room}}, at, room)
	if refused {
		err = fmt.Errorf("device %s: %w: %d bytes: %s", d.id(), provider.ErrMemory, bytes, text)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Free puts a command. A device that is lost has no memory to be freed.
func (d *device) Free(m provider.Memory) {
	if d.enter() != nil {
		return
	}
	defer d.mapped.RUnlock()
	_, _ = d.submit(&offload.Command{Op: offload.Free, A: [8]uint64{uint64(m.(memory))}})
}

// kernel is one that was built.
type kernel struct {
	id     uint64 // a number that this side has chosen
	known  bool   // which parameters it has
	params []offload.Param
	locals bool // local memory is among them, as OpenCL has it
}

// Check compares arguments with the parameters that the compiler has found.
func (k *kernel) Check(args []provider.Arg) error {
	if !k.known {
		return nil
	}
	given, besides := 0, ""
	if !k.locals {
		besides = " besides local memory"
	}
	for i := range args {
		if !k.locals && args[i].Kind == provider.Local {
			continue
		}
		if given < len(k.params) {
			if err := fits(k.params[given], &args[i]); err != nil {
				return fmt.Errorf("%w %d: %w", provider.ErrArgument, i, err)
			}
		}
		given++
	}
	if given != len(k.params) {
		return fmt.Errorf("%w: %d arguments%s, the kernel takes %d", provider.ErrArgument, given, besides, len(k.params))
	}
	return nil
}

// fits compares an argument with a parameter.
func fits(p offload.Param, a *provider.Arg) error {
	switch {
	case p == offload.ParamUnknown:
	case p == offload.ParamMemory && a.Kind == provider.Scalar:
		return errors.New("it is a number, the kernel's parameter is memory: pass an array")
	case p == offload.ParamMemory:
	case a.Kind != provider.Scalar:
		return fmt.Errorf("it is memory, the kernel's parameter is a number of %d bytes", p)
	case a.Size != int(p):
		return fmt.Errorf("it is a number of %d bytes, the kernel's parameter one of %d: convert it, as by float32(x) or int32(n)", a.Size, p)
	}
	return nil
}

// adders are the calls of package device that add a body.
var adders = map[string]string{openCL: "device.OpenCL", "cuda": "device.CUDA"}

// Build has the body in the language of the device's library compiled.
func (d *device) Build(bodies []provider.Body) (provider.Kernel, error) {
	library, _, _ := strings.Cut(d.id(), ":")
	for _, b := range bodies {
		if b.Language == library {
			return d.build(b)
		}
	}
	return nil, fmt.Errorf("%w: add one with %s, choose the device cpu:0 by GORUN_DEVICE, or call NewKernel before Open, which then chooses a device that runs it", provider.ErrNoBody, adders[library])
}

func (d *device) build(b provider.Body) (provider.Kernel, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.mapped.RUnlock()
	words := b.Name + b.Options + b.Source
	room := max(len(words), textRoom)
	if room > len(d.room.all)/2 {
		return nil, fmt.Errorf("a source of %d bytes; at most %d are possible", len(b.Source), len(d.room.all)/2)
	}
	at, err := d.place(room, nil)
	if err != nil {
		return nil, err
	}
	copy(d.room.all[at:], words)
	d.last++
	k := &kernel{id: d.last, locals: b.Language == openCL}
	text, refused, err := d.ask(&offload.Command{Op: offload.Build, A: [8]uint64{
		k.id, uint64(at), uint64(len(b.Source)), uint64(len(b.Name)), uint64(len(b.Options)), uint64(room)}}, at, room)
	if refused {
		err = &provider.BuildError{Kernel: b.Name, Device: d.id(), Log: text}
	}
	if err != nil {
		return nil, err
	}
	k.params, k.known = d.s.Params(d.put)
	return k, nil
}
