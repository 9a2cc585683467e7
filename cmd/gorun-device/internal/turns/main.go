// Turns is a program for tests: its integers are the same on all devices, however many there are, so its digest tells whether
// anything was lost, or done twice. In each step a row goes to the next rank, and changes all rows of that.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
)

const (
	rows = 32
	row  = 64
)

var turn = device.NewKernel(
	device.OpenCL("turn", `
		kernel void turn(global int *y, global const int *x, int k) {
			size_t i = get_global_id(0);
			y[i] = y[i] * 5 + x[i % 64] + k;
		}`),
	device.CUDA("turn", `
		extern "C" __global__ void turn(int *y, const int *x, int k) {
			unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
			y[i] = y[i] * 5u + x[i % 64] + k;
		}`),
	device.Go("turn", func(w device.Work, y, x []int32, k int32) {
		for i, end := w.Range(0); i < end; i++ {
			y[i] = y[i]*5 + x[i%row] + k
		}
	}))

func main() {
	steps := flag.Int("steps", 100, "steps")
	pace := flag.Duration("pace", 0, "pause after each")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return turns(c, *steps, *pace) })
}

func turns(c *mpi.Comm, steps int, pace time.Duration) error {
	ds, err := device.All()
	if err != nil {
		return err
	}
	defer ds.Close()
	mine, theirs := device.NewArray[int32](rows, row), device.NewArray[int32](row)
	h, err := mine.HostW()
	if err != nil {
		return err
	}
	for i := range h {
		h[i] = int32(i * (c.Rank() + 1))
	}
	state, k := cr.On(c), 0
	if err := errors.Join(state.Register("k", &k), state.Register("mine", mine)); err != nil {
		return err
	}
	for ; k < steps; k++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := exchange(c, mine, theirs, k); err != nil {
			return err
		}
		bounds := ds.Split(rows)
		for v, d := range ds {
			if bounds[v] == bounds[v+1] {
				continue
			}
			if _, err := d.Run(turn, []int{(bounds[v+1] - bounds[v]) * row}, nil, mine.Rows(bounds[v], bounds[v+1]).InOut(), theirs.In(), k); err != nil {
				return err
			}
		}
		time.Sleep(pace)
	}
	return digest(c, mine)
}

// exchange gives the next rank a row.
func exchange(c *mpi.Comm, mine, theirs *device.Array[int32], k int) error {
	out, err := mine.Rows(k%rows, k%rows+1).Host()
	if err != nil {
		return err
	}
	in, err := theirs.HostW()
	if err != nil {
		return err
	}
	_, err = mpi.Sendrecv(c, out, (c.Rank()+1)%c.Size(), 0, in, (c.Rank()+c.Size()-1)%c.Size(), 0)
	return err
}

// digest prints what all rows of all ranks are.
func digest(c *mpi.Comm, mine *device.Array[int32]) error {
	h, err := mine.Host()
	if err != nil {
		return err
	}
	all := make([]int32, len(h)*c.Size())
	if err := mpi.Gather(c, h, all, 0); err != nil || c.Rank() != 0 {
		return err
	}
	sum := fnv.New64a()
	for _, x := range all {
		sum.Write([]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)})
	}
	fmt.Printf("digest %x\n", sum.Sum64())
	return nil
}
