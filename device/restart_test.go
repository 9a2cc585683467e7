package device_test

import (
	"errors"
	"fmt"
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
