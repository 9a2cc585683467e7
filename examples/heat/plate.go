package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/mpi"
)

// Tags of the messages: a halo's tag is the direction in which it travels.
const (
	north = iota
	south
	west
	east
	tagField
)

// plate is one rank's rectangle of the square plate, with a frame of one point
// around it: temperatures of the neighbours, or of the plate's edge.
//
//	. n n n n .
//	w o o o o e     o  own points, rows x cols of them
//	w o o o o e     n, s, w, e  the frame; its corners are never read
//	. s s s s .
type plate struct {
	c          *mpi.Comm
	n          int
	grid       grid
	row, col   int // of the first own point in the plate
	rows, cols int
	now, next  []float64
	neighbour  [4]int       // ranks by direction, ProcNull at the plate's edge
	sends      [4][]float64 // outermost columns, packed: west and east
	recvs      [4][]float64 // columns of the neighbours: west and east
	requests   []mpi.Request
	clock      clock.Clock
}

// hot is the temperature of the upper edge.
const hot = 100

// diffusion is the part of a difference that flows in one step; the scheme is
// stable up to 0.25.
const diffusion = 0.2

// grid is an arrangement of ranks in rows and columns, row by row.
type grid struct{ rows, cols int }

// arrange returns the most nearly square grid of size ranks.
func arrange(size int) grid {
	g := grid{1, size}
	for r := 1; r*r <= size; r++ {
		if size%r == 0 {
			g = grid{r, size / r}
		}
	}
	return g
}

func newPlate(c *mpi.Comm, n int) (*plate, error) {
	g := arrange(c.Size())
	if g.rows > n || g.cols > n {
		return nil, fmt.Errorf("%d ranks make a grid of %d x %d, too many for a plate of %d x %d points", c.Size(), g.rows, g.cols, n, n)
	}
	r, k := c.Rank()/g.cols, c.Rank()%g.cols
	p := &plate{c: c, n: n, grid: g, row: r * n / g.rows, col: k * n / g.cols}
	p.rows, p.cols = (r+1)*n/g.rows-p.row, (k+1)*n/g.cols-p.col
	p.now = make([]float64, (p.rows+2)*(p.cols+2))
	p.next = make([]float64, len(p.now))
	for d, at := range [4][2]int{north: {r - 1, k}, south: {r + 1, k}, west: {r, k - 1}, east: {r, k + 1}} {
		p.neighbour[d] = mpi.ProcNull
		if at[0] >= 0 && at[0] < g.rows && at[1] >= 0 && at[1] < g.cols {
			p.neighbour[d] = at[0]*g.cols + at[1]
		}
	}
	for _, d := range [2]int{west, east} {
		p.sends[d], p.recvs[d] = make([]float64, p.rows), make([]float64, p.rows)
	}
	if r == 0 {
		for j := 1; j <= p.cols; j++ {
			p.now[j], p.next[j] = hot, hot
		}
	}
	return p, nil
}

// line returns own points of row i, 0 and rows+1 being the frame.
func (p *plate) line(i int) []float64 {
	w := p.cols + 2
	return p.now[i*w+1 : i*w+1+p.cols]
}

// exchange fetches the frame from the neighbours. Rows lie in one piece and are
// received in place; columns travel packed.
func (p *plate) exchange() error {
	w := p.cols + 2
	for i := range p.rows {
		p.sends[west][i] = p.now[(i+1)*w+1]
		p.sends[east][i] = p.now[(i+1)*w+p.cols]
	}
	p.requests = p.requests[:0]
	err := p.begin(
		transfer{north, p.line(1), south, p.line(p.rows + 1)},
		transfer{south, p.line(p.rows), north, p.line(0)},
		transfer{west, p.sends[west], east, p.recvs[east]},
		transfer{east, p.sends[east], west, p.recvs[west]})
	if err != nil {
		return err
	}
	if err := mpi.WaitallInto(p.requests, nil); err != nil {
		return err
	}
	for i := range p.rows {
		if p.neighbour[west] != mpi.ProcNull {
			p.now[(i+1)*w] = p.recvs[west][i]
		}
		if p.neighbour[east] != mpi.ProcNull {
			p.now[(i+1)*w+p.cols+1] = p.recvs[east][i]
		}
	}
	return nil
}

// transfer is one direction of the exchange: send goes to the neighbour in
// direction to, while the one in direction from fills recv.
type transfer struct {
	to   int
	send []float64
	from int
	recv []float64
}

// begin starts the transfers; a message to or from ProcNull is none at all.
func (p *plate) begin(transfers ...transfer) error {
	for _, t := range transfers {
		r, err := mpi.Irecv(p.c, t.recv, p.neighbour[t.from], t.to)
		if err != nil {
			return err
		}
		p.requests = append(p.requests, r)
	}
	for _, t := range transfers {
		r, err := mpi.Isend(p.c, t.send, p.neighbour[t.to], t.to)
		if err != nil {
			return err
		}
		p.requests = append(p.requests, r)
	}
	return nil
}

// step computes the next temperatures. Each product is rounded by itself, so
// that no compiler fuses it with the sum. A point's left neighbour is the point
// before and its right one the next, so each is loaded once.
func (p *plate) step() {
	w := p.cols + 2
	for i := 1; i <= p.rows; i++ {
		up, down := p.line(i-1), p.line(i+1)
		right := p.now[i*w+2:][:p.cols]
		to := p.next[i*w+1:][:p.cols]
		before, here := p.now[i*w], p.now[i*w+1]
		up, down = up[:len(to)], down[:len(to)]
		right = right[:len(to)]
		for j := range to {
			after := right[j]
			around := (up[j] + down[j]) + (before + after)
			to[j] = here + float64(diffusion*(around-float64(4*here)))
			before, here = here, after
		}
	}
	// The frame at the plate's edge is the same in both; the rest is fetched.
	p.now, p.next = p.next, p.now
}

// own returns the own points, row by row, without the frame.
func (p *plate) own() []float64 {
	own := make([]float64, 0, p.rows*p.cols)
	for i := 1; i <= p.rows; i++ {
		own = append(own, p.line(i)...)
	}
	return own
}

// gather returns the whole field on rank 0, nil elsewhere.
func (p *plate) gather() ([]float64, error) {
	if p.c.Rank() != 0 {
		return nil, mpi.Send(p.c, p.own(), 0, tagField)
	}
	field := make([]float64, p.n*p.n)
	part := p.own()
	for rank := range p.c.Size() {
		r, k := rank/p.grid.cols, rank%p.grid.cols
		row, col := r*p.n/p.grid.rows, k*p.n/p.grid.cols
		cols := (k+1)*p.n/p.grid.cols - col
		if rank > 0 {
			var err error
			if part, _, err = mpi.RecvAlloc[float64](p.c, rank, tagField); err != nil {
				return nil, err
			}
		}
		for i := 0; i*cols < len(part); i++ {
			copy(field[(row+i)*p.n+col:], part[i*cols:(i+1)*cols])
		}
	}
	return field, nil
}
