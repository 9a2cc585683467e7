package rdma

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/unquiet"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	_ "github.com/gorun-mpi/gorun/rpi/rdma/rxe"
	_ "github.com/gorun-mpi/gorun/rpi/rdma/soft" // is always there
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// Device is an opened device.
type Device struct {
	v      *virtual.Device
	mark   *unquiet.Mark // set but between Quiesce and what ends that: no image of the process is taken then
	closed bool
}

func newDevice(v *virtual.Device) (*Device, error) {
	mark, err := unquiet.New()
	if err != nil {
		return nil, fmt.Errorf("rdma: %w", err)
	}
	return &Device{v: v, mark: mark}, nil
}

// Offer is a provider of this program and what it has here.
type Offer struct {
	Provider string
	Devices  []Info // the best first
	Err      error  // why there are none, and the remedy
}

// Providers returns what this program could open, the provider that Open prefers first.
func Providers() []Offer {
	var list []Offer
	for _, p := range provider.All() {
		o := Offer{Provider: p.Name()}
		o.Devices, o.Err = p.List()
		list = append(list, o)
	}
	return list
}

// Open opens a device for a rank, 0 to 1<<24 - 1: device "" is the provider's best, provider "" the first that has one. All ranks have to open
// devices of the same network. The error names the providers and why none could be used.
func Open(rank int, providerName, device string) (*Device, error) {
	if rank < 0 || rank >= 1<<24 {
		return nil, fmt.Errorf("rdma: rank %d is not within 0 to %d", rank, 1<<24-1)
	}
	real, err := open(providerName, device)
	if err != nil {
		return nil, err
	}
	d, err := newDevice(virtual.NewDevice(rank, real))
	if err != nil {
		return nil, errors.Join(err, real.Close())
	}
	return d, nil
}

func open(name, device string) (provider.Device, error) {
	var whys []error
	for _, p := range provider.All() {
		if name != "" && p.Name() != name {
			continue
		}
		real, err := p.Open(device)
		if err == nil {
			return real, nil
		}
		whys = append(whys, fmt.Errorf("provider %s: %w", p.Name(), err))
	}
	if whys == nil {
		return nil, fmt.Errorf("rdma: this program has no provider %q; it has to import its package", name)
	}
	return nil, fmt.Errorf("rdma: no device: %w", errors.Join(whys...))
}

// Info describes the device that is in use now.
func (d *Device) Info() Info { return d.v.Real().Info() }

// Rank returns the rank.
func (d *Device) Rank() int { return d.v.Rank }

// Close closes the device and what was made of it. Requests of peers fail.
func (d *Device) Close() error {
	if d.closed {
		return provider.ErrClosed
	}
	d.closed = true
	return errors.Join(d.v.Real().Close(), d.mark.Close())
}

// object is what a handle has.
type object struct {
	d  *Device
	id ID
}

// ID names the object. It is what finds it again after Load.
func (o object) ID() ID { return o.id }

// Close closes the object. ErrBusy: others were made with it and are open. Peers do not read or
// write the bytes of a closed region any more.
func (o object) Close() error { return o.d.v.Close(o.id) }

// Domain is a protection domain: regions and pairs that may be used together.
type Domain struct{ object }

// Queue is a completion queue.
type Queue struct{ object }

// Region is registered memory.
type Region struct{ object }

// Shared is a shared receive queue.
type Shared struct{ object }

// Pair is a queue pair: one end of a connection.
type Pair struct{ object }

// NewDomain makes a protection domain.
func (d *Device) NewDomain() (Domain, error) {
	id, err := d.v.NewDomain()
	return Domain{object{d, id}}, err
}

// NewQueue makes a completion queue with room for depth completions. More than that at once make it useless (an error of Poll).
func (d *Device) NewQueue(depth int) (Queue, error) {
	id, err := d.v.NewQueue(depth)
	return Queue{object{d, id}}, err
}

// found returns the object of that ID and kind.
func (d *Device) found(id ID, k virtual.Kind, ok bool) (object, error) {
	if !ok || id.Kind() != k {
		return object{}, fmt.Errorf("%w: %s", ErrNoSuch, id)
	}
	return object{d, id}, nil
}

// Domain returns the domain of that ID.
func (d *Device) Domain(id ID) (Domain, error) {
	o, err := d.found(id, virtual.KindDomain, d.v.Domains[id] != nil)
	return Domain{o}, err
}

// Queue returns the completion queue of that ID.
func (d *Device) Queue(id ID) (Queue, error) {
	o, err := d.found(id, virtual.KindQueue, d.v.Queues[id] != nil)
	return Queue{o}, err
}

// Region returns the region of that ID.
func (d *Device) Region(id ID) (Region, error) {
	o, err := d.found(id, virtual.KindRegion, d.v.Regions[id] != nil)
	return Region{o}, err
}

// Shared returns the shared receive queue of that ID.
func (d *Device) Shared(id ID) (Shared, error) {
	o, err := d.found(id, virtual.KindShared, d.v.Shared[id] != nil)
	return Shared{o}, err
}

// Pair returns the pair of that ID.
func (d *Device) Pair(id ID) (Pair, error) {
	o, err := d.found(id, virtual.KindPair, d.v.Pairs[id] != nil)
	return Pair{o}, err
}
