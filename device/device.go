package device

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/device/cpu"
	"github.com/gorun-mpi/gorun/device/opencl"
	"github.com/gorun-mpi/gorun/device/provider"
)

// providers are those of all devices, by preference.
var providers = []provider.Provider{opencl.Provider{}, opencl.Provider{Library: "cuda"}, cpu.Provider{}}

// List returns the devices of this machine. cpu:0 is always there. Errors: why a kind of devices cannot be listed; the other
// kinds are returned.
func List() ([]Info, error) {
	var all []Info
	var failed []error
	for _, p := range providers {
		infos, err := p.List()
		if err != nil {
			failed = append(failed, fmt.Errorf("devices of %s: %w", p.Name(), err))
		}
		for i, info := range infos {
			info.ID = p.Name() + ":" + strconv.Itoa(i)
			all = append(all, info)
		}
	}
	return all, errors.Join(failed...)
}

// Device runs kernels.
type Device struct {
	d      *driver
	suffix string // of a virtual one's ID
}

func (d *Device) name() string { return d.d.p.Info().ID + d.suffix }

// driver is an opened device, or several virtual ones on it.
type driver struct {
	mu      sync.Mutex // of commands
	p       provider.Device
	kernels map[*Kernel]provider.Kernel
	weight  float64 // its speed, measured or a guess

	newest   provider.Ticket // of all commands
	replicas map[*replica]bool

	runs, sent, fetched atomic.Uint64
	untimed             atomic.Bool
}

// Open opens a device by its ID, as List has it; a number alone is of the library that All takes. With "" it opens the first that
// GORUN_DEVICE names (IDs with commas between them), or else the first of what All opens: one that runs the kernels that the program
// has made so far. Each call opens it with memory and order of its own. Errors: ErrNoDevice with the devices that there are.
func Open(id string) (*Device, error) {
	ids, err := chosen(id)
	if err != nil {
		return nil, err
	}
	d, err := open(ids[0])
	if err != nil {
		return nil, err
	}
	return &Device{d, ""}, nil
}

// chosen are the IDs of the devices to be used: those named in a list, if it is empty those that GORUN_DEVICE names, or else the usual ones.
func chosen(list string) ([]string, error) {
	list = cmp.Or(list, os.Getenv("GORUN_DEVICE"))
	ids := strings.Split(list, ",")
	named := list != ""
	if named && !slices.ContainsFunc(ids, isNumber) {
		return ids, nil
	}
	infos, err := List()
	if len(infos) == 0 {
		return nil, err
	}
	all := usual(infos, &made)
	if !named {
		return all, nil
	}
	library, _, _ := strings.Cut(all[0], ":")
	for i, id := range ids {
		if isNumber(id) {
			ids[i] = library + ":" + id
		}
	}
	return ids, nil
}

// isNumber reports whether an ID leaves its library out.
func isNumber(id string) bool {
	_, err := strconv.ParseUint(id, 10, 31)
	return err == nil
}

// usual are the IDs of the devices that a program uses which names none, of those that run the most of its kernels: the accelerators of the first
// library that has any, as a GPU of two libraries is to be used once, or else all of the first library.
func usual(infos []Info, kernels *census) (ids []string) {
	infos = kernels.best(infos)
	of := func(library string, accelerators bool) {
		for _, i := range infos {
			if strings.HasPrefix(i.ID, library+":") && (i.Kind != provider.CPU || !accelerators) {
				ids = append(ids, i.ID)
			}
		}
	}
	for _, p := range providers {
		if of(p.Name(), true); ids != nil {
			return ids
		}
	}
	first, _, _ := strings.Cut(infos[0].ID, ":")
	of(first, false)
	return ids
}

func open(id string) (*driver, error) {
	name, number, _ := strings.Cut(id, ":")
	for _, p := range providers {
		i, err := strconv.Atoi(number)
		if p.Name() != name || err != nil {
			continue
		}
		d, err := p.Open(i)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoDevice, err)
		}
		info := d.Info()
		opened := &driver{p: d, kernels: map[*Kernel]provider.Kernel{}, replicas: map[*replica]bool{}, weight: float64(max(info.Units, 1) * max(info.Clock, 1))}
		if m, ok := d.(provider.Mover); ok {
			m.OnCapture(opened.elsewhere)
		}
		return opened, nil
	}
	infos, err := List()
	var ids []string
	for _, i := range infos {
		ids = append(ids, i.ID)
	}
	return nil, errors.Join(fmt.Errorf("%w: %q: there are %s", ErrNoDevice, id, strings.Join(ids, ", ")), err)
}

// Info describes the device. The ID of a virtual one ends in its number: "cpu:0/3".
func (d *Device) Info() Info {
	info := d.d.p.Info()
	info.ID = d.name()
	return info
}

// Close ends the device after the kernels that run. Rows that are valid there alone are lost: call Host or Evict of their arrays before.
// Later calls with the device return ErrClosed. A kernel that never ends is waited for without end: a program that gives one up ends without Close, and
// the device's process ends with it.
func (d *Device) Close() error { return d.d.p.Close() }

// Timed says whether kernels that are run from now on tell their times (Event.Wait), as they do at first. To take the times of a small kernel costs
// about as much as to start it. Virtual devices on one device have this in common.
func (d *Device) Timed(on bool) { d.d.setTimed(on) }

// setTimed reports whether this has changed anything.
func (d *driver) setTimed(on bool) bool {
	t, ok := d.p.(provider.Timer)
	if !ok || d.untimed.Swap(!on) == !on {
		return false
	}
	t.SetTimed(on)
	return true
}

// Stats are counts of what a device was given since it was opened; virtual ones on one device count together.
type Stats struct {
	Runs    uint64 // kernels
	Sent    uint64 // bytes from the host to the device
	Fetched uint64 // bytes from the device to the host
}

// Stats returns the counts.
func (d *Device) Stats() Stats {
	return Stats{d.d.runs.Load(), d.d.sent.Load(), d.d.fetched.Load()}
}

// free gives the memory of a copy back.
func (d *driver) free(r *replica) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.replicas, r)
	d.p.Free(r.mem)
}

// command calls f, which puts commands, and returns the ticket of the last.
func (d *driver) command(f func() (provider.Ticket, error)) (provider.Ticket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := f()
	d.newest = max(d.newest, t)
	return t, err
}

// kernel is k as built for this device. Caller holds mu.
func (d *driver) kernel(k *Kernel) (provider.Kernel, error) {
	if b, ok := d.kernels[k]; ok {
		return b, nil
	}
	b, err := d.p.Build(k.bodies)
	if err == nil {
		d.kernels[k] = b
	}
	return b, err
}
