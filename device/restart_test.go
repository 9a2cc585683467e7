package device_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// decay runs steps of a kernel on two arrays, one registered. Each life has another number of devices: the rows that each
// computes are only valid there.
func decay(c *mpi.Comm, steps int) error {
	r := cr.On(c)
	devices := 2
	if r.Restarted() {
		devices = 3
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	const n = 12
	i, a, local := 0, device.NewArray[int64](n), device.NewArray[int64](n)
	for name, v := range map[string]any{"i": &i, "a": a, "rows": a.Rows(3, 5)} {
		if err := r.Register(name, v); err != nil {
			return err
		}
	}
	for ; i < steps; i++ {
		if err := r.Point(); err != nil {
			return err
		}
		bounds := ds.Split(n)
		for v, d := range ds {
			part, add := a.Rows(bounds[v], bounds[v+1]), local.Rows(bounds[v], bounds[v+1])
			rows := bounds[v+1] - bounds[v]
			if _, err := d.Run(fill, []int{rows}, nil, add.Out(), i+bounds[v]+c.Rank()); err != nil {
				return err
			}
			if _, err := d.Run(step, []int{rows}, nil, part.InOut(), add.In(), n, 0, 1); err != nil {
				return err
			}
		}
	}
	return verify(a, steps, c.Rank())
}

// verify compares with the same on the host.
func verify(a *device.Array[int64], steps, rank int) error {
	got, err := a.Host()
	if err != nil {
		return err
	}
	for at, x := range got {
		want := int64(0)
		for i := range steps {
			want = 3*want + int64(i+at+rank) + 1
		}
		if x != want {
			return fmt.Errorf("element %d is %d, not %d", at, x, want)
		}
	}
	return nil
}

// A restart from portable images finds arrays as they were, with another number of devices.
func TestRestartWithOtherDevices(t *testing.T) {
	mpitest.Restart(t, 2, 6, func(c *mpi.Comm) error { return decay(c, 11) })
}

// counted counts steps for each device of a Layout, which follows the devices: 2 before the restart, then as many as there are. Whatever
// it is dealt out to, the program ends with the same array and the same sum of counts.
func counted(c *mpi.Comm, steps, others int) error {
	const rows = 12
	r := cr.On(c)
	devices := 2
	if r.Restarted() {
		devices = others
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	l, i, a, counts := device.Malleable(ds, rows), 0, device.NewArray[int64](rows), make([]int, devices)
	for name, v := range map[string]any{"layout": l, "i": &i, "a": a, "counts": &counts} {
		if err := r.Register(name, v); err != nil {
			return err
		}
	}
	if was, changed := l.Changed(); changed != (devices != 2) || changed && !slices.Equal(was, []int{0, 6, 12}) || changed != (len(counts) != devices) {
		return fmt.Errorf("%d devices: changed %v, was %v, %d counts", devices, changed, was, len(counts))
	} else if changed {
		for _, n := range counts[1:] {
			counts[0] += n
		}
		counts = append(counts[:1], make([]int, devices-1)...)
	}
	for ; i < steps; i++ {
		if err := r.Point(); err != nil {
			return err
		}
		bounds := l.Bounds()
		for v, d := range ds {
			add := device.NewArray[int64](bounds[v+1] - bounds[v])
			if _, err := d.Run(fill, add.Dims(), nil, add.Out(), i+bounds[v]+c.Rank()); err != nil {
				return err
			}
			if _, err := d.Run(step, add.Dims(), nil, a.Rows(bounds[v], bounds[v+1]).InOut(), add.In(), rows, 0, 1); err != nil {
				return err
			}
			counts[v] += add.Dims()[0]
		}
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != rows*steps {
		return fmt.Errorf("%d rows were counted, not %d", sum, rows*steps)
	}
	return verify(a, steps, c.Rank())
}

// A malleable program goes on from 2 virtual devices on 1, 2 and 4.
func TestMalleable(t *testing.T) {
	for _, others := range []int{1, 2, 4} {
		mpitest.Restart(t, 2, 5, func(c *mpi.Comm) error { return counted(c, 9, others) })
	}
}

// A layout follows the speeds when it is asked to, and refuses other rows than its own.
func TestLayout(t *testing.T) {
	t.Setenv("GORUN_DEVICE", "cpu:0,cpu:0")
	ds, err := device.All()
	if err != nil || len(ds) != 2 {
		t.Fatal(ds, err)
	}
	defer ds.Close()
	l, other := device.Malleable(ds, 100), device.Malleable(ds, 90)
	if was, changed := l.Redeal(); changed {
		t.Errorf("nothing has changed, and %v", was)
	}
	for was, changed := l.Redeal(); !changed || l.Bounds()[1] <= 55; was, changed = l.Redeal() { // a busy machine may slow the other down
		if !slices.Equal(was[:2], []int{0, l.Bounds()[1]}) && !changed {
			t.Fatalf("nothing has changed from %v to %v", was, l.Bounds())
		}
		slow := map[*device.Device]int{ds[1]: 1}
		if err := ds.Measure(func(d *device.Device) (device.Event, error) { return d.Run(waste, []int{1}, nil, slow[d]) }); err != nil {
			t.Fatal(err)
		}
	}
	from, _, _ := l.Image()
	to, _, restored := other.Image()
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	if err := restored(); !errors.Is(err, device.ErrArgument) {
		t.Errorf("rows of another array: %v", err)
	}
}

// waste takes time if it is to.
var waste = device.NewKernel(device.Go("waste", func(_ device.Work, slow int32) {
	n := 10_000 + 10_000_000*int(slow)
	for x := 1; n > 0; n-- {
		x = x*3 + n
		if x == 0 {
			panic("never")
		}
	}
}))

// An event as a request of mpi ends with the others, and with the kernel's error.
func TestRequestsOfEvents(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		d, err := device.Open("cpu:0")
		if err != nil {
			return err
		}
		defer d.Close()
		a := device.NewArray[int64](2)
		bad := device.NewKernel(device.Go("bad", func(device.Work) { panic("as it is to") }))
		var rs []mpi.Request
		for _, start := range []func() (device.Event, error){
			func() (device.Event, error) { return d.Run(fill, []int{2}, nil, a.Out(), 7) },
			func() (device.Event, error) { return d.Run(bad, []int{1}, nil) },
		} {
			e, err := start()
			if err != nil {
				return err
			}
			r, err := mpi.RequestOf(c, e)
			if err != nil {
				return err
			}
			rs = append(rs, r)
		}
		in := make([]int, 1)
		r, err := mpi.Irecv(c, in, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		if err := mpi.SendValue(c, c.Rank(), 1-c.Rank(), 0); err != nil {
			return err
		}
		return failedOnly(append(rs, r))
	})
}

// failedOnly waits for two events, of which the second fails, and a message.
func failedOnly(rs []mpi.Request) error {
	_, err := mpi.Waitall(rs)
	var failed *mpi.RequestError
	if !errors.Is(err, device.ErrKernel) || !errors.As(err, &failed) || failed.Index != 1 {
		return fmt.Errorf("Waitall returned %w", err)
	}
	return nil
}
