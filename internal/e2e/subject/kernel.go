package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
)

// stir changes a word, and calm changes it back.
func stir(x uint64) uint64 { x = x*0x2545f4914f6cdd1d + 1; return x ^ x>>32 }
func calm(x uint64) uint64 { x ^= x >> 32; return (x - 1) * 0x59071d96d81ecd35 }

// kernel: a kernel in Go computes on all processors of device cpu:0, another one lies behind it, and the rank waits for both.
func kernel(s *stage, c *mpi.Comm) error {
	const items, steps = 1000, 100
	var stop atomic.Bool
	var inside sync.Once
	long := device.NewKernel(device.Go("long", func(w device.Work, y []uint64) {
		for i, end := w.Range(0); i < end; i++ {
			for range steps {
				y[i] = stir(y[i])
			}
			inside.Do(func() { s.here(c.Rank()) })
			for !stop.Load() { // no call: it computes, and has come no further
				y[i] = stir(y[i])
				y[i] = calm(y[i])
			}
			for range steps {
				y[i] = stir(y[i])
			}
		}
	}))
	after := device.NewKernel(device.Go("after", func(w device.Work, y, x []uint64, k uint64) {
		for i, end := w.Range(0); i < end; i++ {
			y[i] = x[i] ^ k
		}
	}))
	d, err := device.Open("cpu:0")
	if err != nil {
		return err
	}
	defer d.Close()
	x, y := device.NewArray[uint64](items), device.NewArray[uint64](items)
	h, err := x.HostW()
	if err != nil {
		return err
	}
	copy(h, noise(items, uint64(c.Rank())))
	want := slices.Clone(h)
	go func() {
		s.wait("go")
		stop.Store(true)
	}()
	if _, err := d.Run(long, []int{items}, nil, x.InOut()); err != nil {
		return err
	}
	if _, err := d.Run(after, []int{items}, nil, y.Out(), x.In(), uint64(c.Rank())); err != nil {
		return err
	}
	got, err := y.Host()
	if err != nil {
		return err
	}
	for i, v := range want {
		for range 2 * steps {
			v = stir(v)
		}
		if v ^= uint64(c.Rank()); got[i] != v {
			return fmt.Errorf("item %d is %x, want %x", i, got[i], v)
		}
	}
	all := make([]uint64, items)
	if err := mpi.Allreduce(c, got, all, mpi.BXor); err != nil {
		return err
	}
	return s.result(c, all)
}
