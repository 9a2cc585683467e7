package flow

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/mpi"
)

// ghosts is the number of layers of neighbours' points that fourth differences need.
const ghosts = 2

// Grid is what a rank has of a cube of N points along each edge: all x, and parts of y and z. Its arrays have the x run
// fastest, then y, and a frame of ghost cells. Directions are 0 for x, 1 for y, 2 for z.
type Grid struct {
	N          int
	H          float64 // distance of two points; the cube's edge is 1
	T          *mpi.Cart
	From, Size [3]int // this rank's points
	Stride     [3]int // from one point to the next in an array
	Low, High  [3]int // those inside the cube, in local numbers: Low <= i < High
	forcing    []Vec
	primitives []Primitive
	weights    [][5]float64 // of the fourth differences at each point of a line
}

// NewGrid cuts a cube of n points along each edge.
func NewGrid(c *mpi.Comm, n int) (*Grid, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0, 1})
	if err != nil {
		return nil, err
	}
	if n/dims[0] < ghosts {
		return nil, fmt.Errorf("%d ranks are too many: a grid of %d x %d of them leaves less than %d of %d points", c.Size(), dims[0], dims[1], ghosts, n)
	}
	t, err := c.Cart(dims, []bool{false, false, false}, false)
	if err != nil {
		return nil, err
	}
	at, err := t.Coords(t.Rank())
	if err != nil {
		return nil, err
	}
	g := &Grid{N: n, H: 1 / float64(n-1), T: t}
	stride := 1
	for d := range 3 {
		g.From[d], g.Size[d] = Share(n, dims[2-d], at[2-d])
		g.Low[d], g.High[d] = max(1-g.From[d], 0), min(n-1-g.From[d], g.Size[d])
		g.Stride[d] = stride
		stride *= g.Size[d] + 2*ghosts
	}
	g.weights = FourthDifferences(n)
	return g, g.force()
}

// Share returns the first of n things that one of parts has, and how many.
func Share(n, parts, part int) (from, size int) {
	from = part * n / parts
	return from, (part+1)*n/parts - from
}

// Array makes room for this rank's points and the frame.
func (g *Grid) Array() []Vec {
	return make([]Vec, g.Stride[2]*(g.Size[2]+2*ghosts))
}

// Dims are the lengths of such an array: z, y, x.
func (g *Grid) Dims() []int {
	return []int{g.Size[2] + 2*ghosts, g.Size[1] + 2*ghosts, g.Size[0] + 2*ghosts}
}

// Start is where this rank's points begin along each dimension of an array.
func (g *Grid) Start() []int { return []int{ghosts, ghosts, ghosts} }

// At returns where a point lies in an array, from its local numbers.
func (g *Grid) At(x, y, z int) int {
	return (x+ghosts)*g.Stride[0] + (y+ghosts)*g.Stride[1] + (z+ghosts)*g.Stride[2]
}

// place returns where a point lies in the unit cube.
func (g *Grid) place(x, y, z int) [3]float64 {
	return [3]float64{float64(g.From[0]+x) * g.H, float64(g.From[1]+y) * g.H, float64(g.From[2]+z) * g.H}
}

// own calls f for each of this rank's points.
func (g *Grid) own(f func(p int, at [3]float64)) {
	for z := range g.Size[2] {
		for y := range g.Size[1] {
			for x := range g.Size[0] {
				f(g.At(x, y, z), g.place(x, y, z))
			}
		}
	}
}

// Lines calls f for each line along x of the points inside the cube, with where its first and last point lie.
func (g *Grid) Lines(f func(first, last int)) {
	for z := g.Low[2]; z < g.High[2]; z++ {
		for y := g.Low[1]; y < g.High[1]; y++ {
			f(g.At(g.Low[0], y, z), g.At(g.High[0]-1, y, z))
		}
	}
}

// Initial returns the state that a benchmark begins with.
func (g *Grid) Initial() []Vec {
	u := g.Array()
	g.own(func(p int, at [3]float64) {
		u[p] = interpolated(at)
		for _, x := range at {
			if x == 0 || x == 1 {
				u[p] = exact(at)
			}
		}
	})
	return u
}

// Halo prepares to bring the neighbours' values around u.
func (g *Grid) Halo(u []Vec) (*mpi.Halo[Vec], error) {
	return mpi.NewHalo(g.T, u, g.Dims(), ghosts, false)
}

// Errors returns the root of the mean of the squares of what u differs from the solution.
func (g *Grid) Errors(u []Vec) (Vec, error) {
	e := g.Array()
	g.own(func(p int, at [3]float64) {
		e[p] = exact(at)
		for m := range e[p] {
			e[p][m] -= u[p][m]
		}
	})
	return g.Norms(e)
}

// Norms returns the root of the mean of the squares of a, inside the cube.
func (g *Grid) Norms(a []Vec) (Vec, error) {
	var sum Vec
	g.Lines(func(first, last int) {
		for _, v := range a[first : last+1] {
			for m, x := range v {
				sum[m] += x * x
			}
		}
	})
	err := mpi.AllreduceInPlace(g.T.Comm, sum[:], mpi.Sum)
	for m := range sum {
		sum[m] = math.Sqrt(sum[m] / math.Pow(float64(g.N-2), 3))
	}
	return sum, err
}
