// Turns is a program for tests: its integers are the same on all devices, however many there are, so its digest tells whether
// anything was lost, or done twice. In each step a row goes to the next rank, and changes all rows of that. So does it change numbers with a fraction, which
// are the same but for what the sines of devices differ by: -field names a file for them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
)

const (
	rows = 32
	row  = 64
)

// turn forgets nothing: a step can be undone, as the factor of what there was is odd.
var turn = device.NewKernel(
	device.OpenCL("turn", `
		kernel void turn(global int *y, global const int *x, int k) {
			size_t i = get_global_id(0);
			y[i] = y[i] * 5 + x[i % 64] * 2 + k;
		}`),
	device.CUDA("turn", `
		extern "C" __global__ void turn(int *y, const int *x, int k) {
			unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
			y[i] = y[i] * 5u + x[i % 64] * 2u + k;
		}`),
	device.Go("turn", func(w device.Work, y, x []int32, k int32) {
		for i, end := w.Range(0); i < end; i++ {
			y[i] = y[i]*5 + x[i%row]*2 + k
		}
	}))

// wave halves what a number was and adds a sine. That is all that devices may round differently: its argument is exact, and so is a half. OpenCL allows
// 4 units in the last place, which are 4.8e-7 of a sine, and the sum half a unit, 1.2e-7 as it is less than 2. Half of an error lives on in the next
// step, so a number is wrong by 1.2e-6 at most, and two of them differ by 2.4e-6, after however many steps.
var wave = device.NewKernel(
	device.OpenCL("wave", `
		kernel void wave(global float *f, global const int *x, int k) {
			size_t i = get_global_id(0);
			f[i] = f[i] * 0.5f + sin((float)(x[i % 64] & 1023) + 0.25f * k);
		}`),
	device.CUDA("wave", `
		extern "C" __global__ void wave(float *f, const int *x, int k) {
			unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
			f[i] = f[i] * 0.5f + sinf((float)(x[i % 64] & 1023) + 0.25f * k);
		}`),
	device.Go("wave", func(w device.Work, f []float32, x []int32, k int32) {
		for i, end := w.Range(0); i < end; i++ {
			f[i] = f[i]*0.5 + float32(math.Sin(float64(float32(x[i%row]&1023)+0.25*float32(k))))
		}
	}))

func main() {
	steps := flag.Int("steps", 100, "steps")
	pace := flag.Duration("pace", 0, "pause after each")
	file := flag.String("field", "", "file for the numbers with a fraction")
	hold := flag.String("hold", "", "file whose appearance ends a wait in the middle")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return turns(c, *steps, *pace, *file, *hold) })
}

func turns(c *mpi.Comm, steps int, pace time.Duration, file, hold string) error {
	ds, err := device.All()
	if err != nil {
		return err
	}
	defer ds.Close()
	mine, theirs, field := device.NewArray[int32](rows, row), device.NewArray[int32](row), device.NewArray[float32](rows, row)
	h, err := mine.HostW()
	if err != nil {
		return err
	}
	for i := range h {
		h[i] = int32(i * (c.Rank() + 1))
	}
	state, k := cr.On(c), 0
	if err := errors.Join(state.Register("k", &k), state.Register("mine", mine), state.Register("field", field)); err != nil {
		return err
	}
	for ; k < steps; k++ {
		if err := state.Point(); err != nil {
			return err
		}
		for k == steps/2 && hold != "" {
			if _, err := os.Stat(hold); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := exchange(c, mine, theirs, k); err != nil {
			return err
		}
		bounds := ds.Split(rows)
		for v, d := range ds {
			if bounds[v] == bounds[v+1] {
				continue
			}
			items := []int{(bounds[v+1] - bounds[v]) * row}
			_, err := d.Run(turn, items, nil, mine.Rows(bounds[v], bounds[v+1]).InOut(), theirs.In(), k)
			if err == nil && file != "" {
				_, err = d.Run(wave, items, nil, field.Rows(bounds[v], bounds[v+1]).InOut(), theirs.In(), k)
			}
			if err != nil {
				return err
			}
		}
		time.Sleep(pace)
	}
	if file != "" {
		if err := write(c, field, file); err != nil {
			return err
		}
	}
	return digest(c, mine)
}

// write writes the fields of all ranks, a number a line.
func write(c *mpi.Comm, field *device.Array[float32], file string) error {
	h, err := field.Host()
	if err != nil {
		return err
	}
	all := make([]float32, len(h)*c.Size())
	if err := mpi.Gather(c, h, all, 0); err != nil || c.Rank() != 0 {
		return err
	}
	var text strings.Builder
	for _, x := range all {
		fmt.Fprintln(&text, x)
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
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
