package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// grid is the arrangement of the ranks. Vectors are cut into one piece for each rank, all of one length. The rank in
// row i and column j of a grid of R x C has the block of the matrix whose columns are the pieces j R, j R+1 ... of
// a vector, and whose rows are the pieces i C, i C+1 ... It keeps piece j R+i of each vector, so that its column of
// the grid has what the block is multiplied with:
//
//	gather p in the column of the grid, multiply, add up the products of the row of the grid, of which
//	each rank gets piece i C+j; send that to the rank that keeps it.
type grid struct {
	c            *mpi.Comm
	row, col     *mpi.Cart // the ranks of this one's row and column
	rows, cols   span      // of the block
	piece, first int       // length of a piece, and where this rank's begins
	to, from     int       // ranks that keep what this one has added up, and the other way
}

func newGrid(c *mpi.Comm, n int) (*grid, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return nil, err
	}
	r, k := dims[1], dims[0] // no more rows than columns: what is added up costs more than what is gathered
	t, err := c.Cart([]int{r, k}, []bool{false, false}, false)
	if err != nil {
		return nil, err
	}
	g := &grid{c: t.Comm, piece: (n + c.Size() - 1) / c.Size()}
	if g.row, err = t.Sub([]bool{false, true}); err != nil {
		return nil, err
	}
	if g.col, err = t.Sub([]bool{true, false}); err != nil {
		return nil, err
	}
	i, j := g.col.Rank(), g.row.Rank()
	kept, added := j*r+i, i*k+j
	g.first = kept * g.piece
	g.rows = span{i * k * g.piece, min((i+1)*k*g.piece, n)}
	g.cols = span{j * r * g.piece, min((j+1)*r*g.piece, n)}
	if g.to, err = t.RankAt(added%r, added/r); err != nil {
		return nil, err
	}
	g.from, err = t.RankAt(kept/k, kept%k)
	return g, err
}

// solver has the pieces of vectors that a rank keeps, and room for those that it multiplies.
type solver struct {
	*grid
	a           *matrix
	x           []float64 // the caller's
	z, r, p, q  []float64
	in, out, my []float64 // columns of the block, rows of it, and what is added up of them
	loop        *nas.Loop
}

func newSolver(g *grid, loop *nas.Loop, a *matrix, x []float64) *solver {
	v := func(n int) []float64 { return make([]float64, n*g.piece) }
	return &solver{grid: g, loop: loop, a: a, x: x, z: v(1), r: v(1), p: v(1), q: v(1), in: v(g.col.Size()), out: v(g.row.Size()), my: v(1)}
}

// multiply sets y to the product of the matrix and x, both as they are kept.
func (s *solver) multiply(x, y []float64) error {
	if err := s.loop.Outside(func() error { return mpi.Allgather(s.col.Comm, x, s.in) }); err != nil {
		return err
	}
	s.a.times(s.in, s.out)
	return s.loop.Outside(func() error {
		if err := mpi.ReduceScatterBlock(s.row.Comm, s.out, s.my, mpi.Sum); err != nil {
			return err
		}
		_, err := mpi.Sendrecv(s.c, s.my, s.to, 0, y, s.from, 0)
		return err
	})
}

// product returns the scalar product of two vectors.
func (s *solver) product(a, b []float64) (sum float64, err error) {
	mine := dot(a, b)
	err = s.loop.Outside(func() (err error) {
		sum, err = mpi.AllreduceValue(s.c, mine, mpi.Sum)
		return err
	})
	return sum, err
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// solve makes z the solution of A z = x, as good as the iterations make it.
func (s *solver) solve() error {
	clear(s.z)
	copy(s.r, s.x)
	copy(s.p, s.x)
	rho, err := s.product(s.r, s.r)
	if err != nil {
		return err
	}
	for range inner {
		if err := s.multiply(s.p, s.q); err != nil {
			return err
		}
		d, err := s.product(s.p, s.q)
		if err != nil {
			return err
		}
		alpha := rho / d
		for i, p := range s.p {
			s.z[i] += alpha * p
			s.r[i] -= alpha * s.q[i]
		}
		before := rho
		if rho, err = s.product(s.r, s.r); err != nil {
			return err
		}
		beta := rho / before
		for i, r := range s.r {
			s.p[i] = r + beta*s.p[i]
		}
	}
	return nil
}
