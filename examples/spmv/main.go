// Spmv multiplies a vector by a sparse matrix again and again, on the devices of all ranks:
//
//	gorun -np 2 -cr ./examples/spmv -n 100000 -devices 2
//
// Each rank has a block of rows of the matrix, in compressed rows, and each of its virtual devices a block of these. The
// vector is registered by global index, so a restart may have other devices and another number of ranks. Numbers are whole, modulo 2^32: all bodies of the kernel, on
// all devices, have the same result.
//
// The result is verified by the transposed matrix, which the ranks multiply without devices: w (A^k x) = ((A^T)^k w) x.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 10000, "rows and columns of the matrix")
	row := flag.Int("row", 16, "elements of a row that are not zero, about")
	steps := flag.Int("steps", 50, "multiplications")
	devices := flag.Int("devices", 2, "virtual devices of each rank")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return spmv(c, *n, *row, *steps, *devices, os.Stdout) })
}

// multiply computes the elements of y for the rows of a block. start counts the elements of the whole rank.
var multiply = device.NewKernel(
	device.OpenCL("multiply", `
		kernel void multiply(global uint *y, global const int *start, global const int *cols, global const uint *vals, global const uint *x) {
			size_t i = get_global_id(0);
			uint sum = 0;
			for (int e = start[i] - start[0]; e < start[i + 1] - start[0]; e++)
				sum += vals[e] * x[cols[e]];
			y[i] = sum;
		}`),
	device.CUDA("multiply", `
		extern "C" __global__ void multiply(unsigned *y, const int *start, const int *cols, const unsigned *vals, const unsigned *x) {
			size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
			unsigned sum = 0;
			for (int e = start[i] - start[0]; e < start[i + 1] - start[0]; e++)
				sum += vals[e] * x[cols[e]];
			y[i] = sum;
		}`),
	device.Go("multiply", func(w device.Work, y []uint32, start, cols []int32, vals, x []uint32) {
		for i, end := w.Range(0); i < end; i++ {
			sum := uint32(0)
			for e := start[i] - start[0]; e < start[i+1]-start[0]; e++ {
				sum += vals[e] * x[cols[e]]
			}
			y[i] = sum
		}
	}))

// matrix is a rank's rows.
type matrix struct {
	rows  dist.Rows // of all ranks
	first int
	start *device.Array[int32] // where a row begins in cols and vals
	cols  *device.Array[int32]
	vals  *device.Array[uint32]
}

// spmv is the program of one rank.
func spmv(c *mpi.Comm, n, row, steps, devices int, out io.Writer) error {
	if n < 1 || row < 1 || devices < 1 || steps < 0 {
		return errors.New("-n, -row and -devices must be positive, and -steps not negative")
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	m, err := newMatrix(dist.Even(n, c.Size()), c.Rank(), row)
	if err != nil {
		return err
	}
	mine := m.rows[c.Rank()+1] - m.first
	x, y, step := device.NewArray[uint32](n), device.NewArray[uint32](mine), 0
	if err := fill(y, m.first); err != nil {
		return err
	}
	part, err := dist.Held(c, m.rows, 1, y)
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := errors.Join(state.Register("step", dist.Replicated(&step)), state.Register("vector", part)); err != nil {
		return err
	}
	for ; step < steps; step++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := gather(c, m.rows, x, y); err != nil {
			return err
		}
		if err := m.step(ds, x, y); err != nil {
			return err
		}
	}
	got, want, err := m.verify(c, y, steps)
	if err != nil {
		return err
	}
	app.Report(c, out, "after %d multiplications the vector's weight is %d\n", steps, got)
	var wrong error
	if got != want {
		wrong = fmt.Errorf("the weight is %d, by the transposed matrix %d", got, want)
	}
	return app.Verdict(c, out, wrong)
}

// gather gives all ranks the vector of whose elements each has some.
func gather(c *mpi.Comm, rows dist.Rows, x, y *device.Array[uint32]) error {
	mine, err := y.Host()
	if err != nil {
		return err
	}
	all, err := x.HostW()
	if err != nil {
		return err
	}
	counts := make([]int, c.Size())
	for r := range counts {
		counts[r] = rows[r+1] - rows[r]
	}
	return mpi.Allgatherv(c, mine, all, counts, nil)
}

// step runs a kernel on each device. They compute at the same time.
func (m *matrix) step(ds device.Devices, x, y *device.Array[uint32]) error {
	start, err := m.start.Host()
	if err != nil {
		return err
	}
	bounds := ds.Split(y.Dims()[0])
	for v, d := range ds {
		from, to := bounds[v], bounds[v+1]
		begin, end := int(start[from]), int(start[to])
		_, err := d.Run(multiply, []int{to - from}, nil,
			y.Rows(from, to).Out(), m.start.Rows(from, to+1).In(), m.cols.Rows(begin, end).In(), m.vals.Rows(begin, end).In(), x.In())
		if err != nil {
			return err
		}
	}
	return nil
}

// hash is a number that looks like chance.
func hash(a, b int) uint32 {
	x := uint32(a)*2654435761 ^ uint32(b+1)*2246822519
	x ^= x >> 15
	x *= 2654435761
	return x ^ x>>13
}

// newMatrix makes the rows of a rank.
func newMatrix(rows dist.Rows, rank, row int) (*matrix, error) {
	n := rows.Total()
	first, end := rows.Of(rank)
	m := &matrix{rows: rows, first: first, start: device.NewArray[int32](end - first + 1)}
	start, err := m.start.HostW()
	if err != nil {
		return nil, err
	}
	for i := range end - first {
		start[i+1] = start[i] + 1 + int32(hash(first+i, 0)%uint32(2*row-1))
	}
	m.cols, m.vals = device.NewArray[int32](int(start[end-first])), device.NewArray[uint32](int(start[end-first]))
	cols, err := m.cols.HostW()
	if err != nil {
		return nil, err
	}
	vals, err := m.vals.HostW()
	for i := range end - first {
		for e := start[i]; e < start[i+1]; e++ {
			k := int(e - start[i])
			cols[e], vals[e] = int32(hash(first+i, 2*k+1)%uint32(n)), hash(first+i, 2*k+2)
		}
	}
	return m, err
}

// fill sets the vector's first value.
func fill(y *device.Array[uint32], first int) error {
	v, err := y.HostW()
	for i := range v {
		v[i] = hash(first+i, -3)
	}
	return err
}

// verify returns the weight of the vector, and what it is to be.
func (m *matrix) verify(c *mpi.Comm, y *device.Array[uint32], steps int) (got, want uint32, err error) {
	n := m.rows.Total()
	w := make([]uint32, n)
	for i := range w {
		w[i] = hash(i, -7)
	}
	v, err := y.Host()
	if err != nil {
		return 0, 0, err
	}
	for i, e := range v {
		got += w[m.first+i] * e
	}
	for range steps {
		if w, err = m.transposed(c, w); err != nil {
			return 0, 0, err
		}
	}
	for i, e := range w {
		want += e * hash(i, -3)
	}
	got, err = mpi.AllreduceValue(c, got, mpi.Sum)
	return got, want, err
}

// transposed multiplies by the transposed matrix.
func (m *matrix) transposed(c *mpi.Comm, w []uint32) ([]uint32, error) {
	start, err := m.start.Host()
	if err != nil {
		return nil, err
	}
	cols, err := m.cols.Host()
	if err != nil {
		return nil, err
	}
	vals, err := m.vals.Host()
	if err != nil {
		return nil, err
	}
	sum := make([]uint32, len(w))
	for i := range start[1:] {
		for e := start[i]; e < start[i+1]; e++ {
			sum[cols[e]] += vals[e] * w[m.first+i]
		}
	}
	return sum, mpi.AllreduceInPlace(c, sum, mpi.Sum)
}
