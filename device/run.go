package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/device/provider"
)

// Run starts a kernel for global items, in one to three dimensions, in groups of local ones; local nil leaves that to the device.
// Arguments are arrays by their In, Out or InOut, Local memory, and numbers. Run makes valid on the device what the kernel reads and returns
// when all is queued; it waits only for rows of other devices. Errors: ErrArgument, *BuildError, ErrNoBody, ErrMemory, and those of a
// device that has failed. What goes wrong later comes with the Event.
func (d *Device) Run(k *Kernel, global, local []int, args ...any) (Event, error) {
	e, err := d.run(k, global, local, args)
	if err != nil {
		return Event{}, d.told(k, err)
	}
	return e, nil
}

// told says which device and kernel an error is of, as far as its own words do not.
func (d *Device) told(k *Kernel, err error) error {
	if !strings.Contains(err.Error(), "kernel "+k.name) {
		err = fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return d.of(err)
}

// of says which device an error is of, if its own words do not.
func (d *Device) of(err error) error {
	if !d.d.named(err) {
		err = fmt.Errorf("device %s: %w", d.name(), err)
	}
	return err
}

// named reports whether an error says which device it is of.
func (d *driver) named(err error) bool { return strings.Contains(err.Error(), "device "+d.p.Info().ID) }

// most is how many arguments a kernel takes.
const most = 26

func (d *Device) run(k *Kernel, global, local []int, args []any) (Event, error) {
	if err := checkSizes(global, local); err != nil {
		return Event{}, err
	}
	if k.params != nil && len(args) != len(k.params) {
		return Event{}, fmt.Errorf("%w: %d arguments, the kernel takes %d", ErrArgument, len(args), len(k.params))
	}
	if len(args) > most {
		return Event{}, fmt.Errorf("%w: %d arguments; a kernel takes at most %d", ErrArgument, len(args), most)
	}
	var list [most]provider.Arg
	var uses [most]Use
	for i, v := range args {
		a, err := k.arg(i, v)
		if err != nil {
			return Event{}, fmt.Errorf("%w %d: %w", ErrArgument, i, err)
		}
		list[i] = a
		uses[i], _ = v.(Use)
	}
	if err := checkUses(uses[:len(args)]); err != nil {
		return Event{}, err
	}
	defer lock(uses[:len(args)])()
	return d.launch(k, global, local, list[:len(args)], uses[:len(args)])
}

// launch does what Run does with checked arguments. Caller holds the arrays.
func (d *Device) launch(k *Kernel, global, local []int, list []provider.Arg, uses []Use) (Event, error) {
	d.d.mu.Lock()
	built, err := d.d.kernel(k)
	d.d.mu.Unlock()
	if err != nil {
		return Event{}, err
	}
	if c, ok := built.(provider.Checker); ok {
		if err := c.Check(list); err != nil {
			return Event{}, err
		}
	}
	var copies [most]*replica
	for i, u := range uses {
		if u.s == nil {
			continue
		}
		if copies[i], err = u.ready(d.d); err != nil {
			return Event{}, fmt.Errorf("argument %d: %w", i, err)
		}
		list[i].Memory = copies[i].mem
	}
	t, err := d.d.command(func() (provider.Ticket, error) { return d.d.p.Run(built, global, local, list) })
	if err != nil {
		return Event{}, err
	}
	d.d.runs.Add(1)
	for i, u := range uses {
		if u.s != nil && u.writes {
			u.s.written(copies[i], u.all)
		}
	}
	return Event{d.d, t, k.name}, nil
}

// ready returns the copy on a device, valid if the kernel reads it. Caller holds the array, and no driver.
func (u Use) ready(d *driver) (*replica, error) {
	d.mu.Lock()
	r, err := u.s.on(d, u.all)
	d.mu.Unlock()
	if err == nil && u.reads {
		err = u.s.supply(r)
	}
	return r, err
}

// Fetch makes arrays valid on the device, as Run does before its kernel. It waits only for rows of other devices. Programs with
// several devices call it for all of them before they Run kernels. Errors: as Run.
func (d *Device) Fetch(uses ...Use) error {
	for _, u := range uses {
		if u.s == nil {
			return fmt.Errorf("device %s: %w: a Use is made by In, Out or InOut of an array", d.name(), ErrArgument)
		}
		u.s.mu.Lock()
		_, err := u.ready(d.d)
		u.s.mu.Unlock()
		if err != nil {
			return d.of(err)
		}
	}
	return nil
}

func checkSizes(global, local []int) error {
	if len(global) < 1 || len(global) > 3 || local != nil && len(local) != len(global) {
		return fmt.Errorf("%w: %d dimensions of items, %d of groups; there are 1 to 3, and as many for groups, or none", ErrArgument, len(global), len(local))
	}
	for i, g := range global {
		if g < 0 || local != nil && (local[i] < 1 || g%local[i] != 0) {
			return fmt.Errorf("%w: items %v are no whole number of groups %v", ErrArgument, global, local)
		}
	}
	return nil
}

// checkUses refuses rows that one argument writes and another one has, too.
func checkUses(uses []Use) error {
	for i, u := range uses {
		for j, v := range uses[:i] {
			if u.s == nil || u.s != v.s || !u.writes && !v.writes {
				continue
			}
			if both := u.all.and(v.all); !both.empty() {
				return fmt.Errorf("%w: arguments %d and %d have %d row(s) of one array in common, and one of them writes: pass the array once, by InOut", ErrArgument, j, i, both.to-both.from)
			}
		}
	}
	return nil
}

// lock locks the arrays in the order of their making, and returns what unlocks them.
func lock(uses []Use) (unlock func()) {
	var space [most]*storage
	all := space[:0]
	for _, u := range uses {
		if u.s != nil && !slices.Contains(all, u.s) {
			all = append(all, u.s)
		}
	}
	slices.SortFunc(all, func(a, b *storage) int { return int(int64(a.id) - int64(b.id)) })
	for _, s := range all {
		s.mu.Lock()
	}
	return func() {
		for _, s := range all {
			s.mu.Unlock()
		}
	}
}
