// Summa multiplies matrices that a grid of ranks divides in blocks (van de Geijn and Watts: SUMMA: Scalable Universal
// Matrix Multiplication Algorithm, 1997):
//
//	gorun -np 4 -cr ./examples/summa -n 2000
//
// In each step a panel of A travels along the rows of the grid, and one of B along its columns: Cart.Sub makes the
// communicators of a row and of a column. The devices of a rank multiply the panels, each for a block of rows of the product. While they do, the next panels travel.
// The factors are such that the product is known.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 500, "rows and columns of the matrices")
	width := flag.Int("width", 64, "columns of a panel at most")
	devices := flag.Int("devices", 1, "virtual devices of each rank")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return summa(c, *n, *width, *devices, os.Stdout) })
}

// The factors, and their product: sums of whole numbers, so that nothing is rounded for n up to 10,000.
func factorA(i, k int) float64 { return float64(i + k) }
func factorB(k, j int) float64 { return float64(k - j) }
func product(i, j, n int) float64 {
	return float64((i-j)*(n*(n-1)/2) - i*j*n + (n-1)*n*(2*n-1)/6)
}

// multiply adds the product of two panels to a block. The panels have room for width columns and rows, of which w are in use.
var multiply = device.NewKernel(
	device.OpenCL("multiply", `
		kernel void multiply(global double *c, global const double *a, global const double *b, int width, int w) {
			size_t j = get_global_id(0), i = get_global_id(1), cols = get_global_size(0);
			double sum = c[i * cols + j];
			for (int l = 0; l < w; l++)
				sum += a[i * width + l] * b[l * cols + j];
			c[i * cols + j] = sum;
		}`),
	device.CUDA("multiply", `
		extern "C" __global__ void multiply(double *c, const double *a, const double *b, int width, int w) {
			size_t j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, cols = gridDim.x * blockDim.x;
			double sum = c[i * cols + j];
			for (int l = 0; l < w; l++)
				sum += a[i * width + l] * b[l * cols + j];
			c[i * cols + j] = sum;
		}`),
	device.Go("multiply", func(w device.Work, c, a, b []float64, width, panel int32) {
		cols := w.Global[0]
		for i := w.From[1]; i < w.To[1]; i++ {
			sum := c[i*cols:][:cols]
			for l := range int(panel) {
				f, row := a[i*int(width)+l], b[l*cols:][:cols]
				for j, end := w.Range(0); j < end; j++ {
					sum[j] += f * row[j]
				}
			}
		}
	}))

// block is the part of a matrix that a rank has.
type block struct {
	row, col, rows, cols int
	v                    []float64
}

func newBlock(grid *mpi.Cart, n int, value func(i, j int) float64) (*block, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	top, bottom := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	b := &block{top, left, bottom - top, right - left, make([]float64, (bottom-top)*(right-left))}
	for i := range b.rows {
		for j := range b.cols {
			b.v[i*b.cols+j] = value(top+i, left+j)
		}
	}
	return b, nil
}

// summa is the program of one rank.
func summa(c *mpi.Comm, n, width, devices int, out io.Writer) error {
	if n < 1 || width < 1 || devices < 1 {
		return errors.New("-n, -width and -devices must be positive")
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{false, false}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	m, err := newMultiplier(grid, ds, n, width)
	if err != nil {
		return err
	}
	state, k := cr.On(c), 0
	if err := errors.Join(state.Register("k", &k), state.Register("c", m.product)); err != nil {
		return err
	}
	for k < n {
		if err := state.Point(); err != nil {
			return err
		}
		if k, err = m.step(k); err != nil {
			return err
		}
	}
	if m.c.v, err = m.product.Host(); err != nil {
		return err
	}
	sum := 0.0
	for _, v := range m.c.v {
		sum += v
	}
	if sum, err = mpi.AllreduceValue(c, sum, mpi.Sum); err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, the elements of the product add up to %.0f\n", dims, sum)
	return app.Verdict(c, out, m.c.check(n))
}

// multiplier is what a rank needs for c = a b.
type multiplier struct {
	n, width       int
	row, col       *mpi.Cart // the ranks of this one's row and of its column
	a, b, c        *block
	ds             device.Devices
	product        *device.Array[float64] // c
	panelA, panelB *device.Array[float64]
}

func newMultiplier(grid *mpi.Cart, ds device.Devices, n, width int) (*multiplier, error) {
	m := &multiplier{n: n, width: width, ds: ds}
	var errs [5]error
	m.row, errs[0] = grid.Sub([]bool{false, true})
	m.col, errs[1] = grid.Sub([]bool{true, false})
	m.a, errs[2] = newBlock(grid, n, factorA)
	m.b, errs[3] = newBlock(grid, n, factorB)
	m.c, errs[4] = newBlock(grid, n, func(int, int) float64 { return 0 })
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.product = device.NewArray[float64](m.c.rows, m.c.cols)
	m.panelA, m.panelB = device.NewArray[float64](m.c.rows, width), device.NewArray[float64](width, m.c.cols)
	return m, nil
}

// step multiplies a panel that begins at k and returns where the next one begins. A panel is in one column of ranks
// in a, and in one row of ranks in b.
func (m *multiplier) step(k int) (int, error) {
	across, down := app.Owner(m.n, m.row.Size(), k), app.Owner(m.n, m.col.Size(), k)
	_, endA := app.Range(m.n, m.row.Size(), across)
	_, endB := app.Range(m.n, m.col.Size(), down)
	w := min(m.width, endA-k, endB-k)
	a, b := make([]float64, m.a.rows*w), make([]float64, w*m.b.cols)
	if m.row.Rank() == across {
		columns := mpi.Vector(m.a.rows, w, m.a.cols).Shift(k - m.a.col)
		if _, err := (mpi.View[float64]{Data: m.a.v, Layout: columns}).Pack(a); err != nil {
			return k, err
		}
	}
	if m.col.Rank() == down {
		copy(b, m.b.v[(k-m.b.row)*m.b.cols:])
	}
	if err := mpi.Bcast(m.row.Comm, a, across); err != nil {
		return k, err
	}
	if err := mpi.Bcast(m.col.Comm, b, down); err != nil {
		return k, err
	}
	return k + w, m.add(a, b, w)
}

// add gives the panels to the devices, which go on while this rank does.
func (m *multiplier) add(a, b []float64, w int) error {
	panelA, err := m.panelA.HostW()
	if err != nil {
		return err
	}
	for i := range m.c.rows {
		copy(panelA[i*m.width:], a[i*w:][:w])
	}
	panelB, err := m.panelB.HostW()
	if err != nil {
		return err
	}
	copy(panelB, b)
	bounds := m.ds.Split(m.c.rows)
	for v, d := range m.ds {
		from, to := bounds[v], bounds[v+1]
		if _, err := d.Run(multiply, []int{m.c.cols, to - from}, nil, m.product.Rows(from, to).InOut(), m.panelA.Rows(from, to).In(), m.panelB.In(), m.width, w); err != nil {
			return err
		}
	}
	return nil
}

// check compares with the product.
func (b *block) check(n int) error {
	for i := range b.rows {
		for j := range b.cols {
			if got, want := b.v[i*b.cols+j], product(b.row+i, b.col+j, n); got != want {
				return fmt.Errorf("element (%d, %d) is %v, not %v", b.row+i, b.col+j, got, want)
			}
		}
	}
	return nil
}
