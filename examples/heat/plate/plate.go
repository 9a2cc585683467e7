// Package plate computes the temperature of a rectangle of a square plate. The plate's upper edge is held at
// 100 degrees, the other edges at 0. The package knows nothing of messages. The caller knows who has the other
// rectangles, and brings their edges here.
package plate

import "fmt"

// Direction is one in which there may be a neighbour.
type Direction int

const (
	North Direction = iota
	South
	West
	East
	Directions // how many there are
)

// Opposite is the direction back.
func (d Direction) Opposite() Direction { return d ^ 1 }

// Nobody is the neighbour at the plate's edge.
const Nobody = -1

// Plate is a rectangle of the square plate with a frame of one point around it:
// temperatures of the neighbours, or of the plate's edge.
//
//	. n n n n .
//	w o o o o e     o  own points, Rows x Cols of them
//	w o o o o e     n, s, w, e  the frame; its corners are never read
//	. s s s s .
type Plate struct {
	Part
	Neighbours [Directions]int // ranks, or Nobody
	now, next  []float64
	edges      [Directions][]float64 // outermost columns, packed: west and east
	frames     [Directions][]float64 // columns of the neighbours: west and east
}

// Hot is the temperature of the upper edge.
const Hot = 100

// Diffusion is the part of a difference that flows in one step; the scheme is
// stable up to 0.25.
const Diffusion = 0.2

// New returns what one of size ranks has of a plate of n x n points.
func New(n, size, rank int) (*Plate, error) {
	g := arrange(size)
	if g.rows > n || g.cols > n {
		return nil, fmt.Errorf("%d ranks make a grid of %d x %d, too many for a plate of %d x %d points", size, g.rows, g.cols, n, n)
	}
	p := &Plate{Part: PartOf(n, size, rank)}
	p.now = make([]float64, (p.Rows+2)*(p.Cols+2))
	p.next = make([]float64, len(p.now))
	r, k := rank/g.cols, rank%g.cols
	for d, at := range [Directions][2]int{North: {r - 1, k}, South: {r + 1, k}, West: {r, k - 1}, East: {r, k + 1}} {
		p.Neighbours[d] = Nobody
		if at[0] >= 0 && at[0] < g.rows && at[1] >= 0 && at[1] < g.cols {
			p.Neighbours[d] = at[0]*g.cols + at[1]
		}
	}
	for _, d := range [2]Direction{West, East} {
		p.edges[d], p.frames[d] = make([]float64, p.Rows), make([]float64, p.Rows)
	}
	if r == 0 {
		for j := 1; j <= p.Cols; j++ {
			p.now[j], p.next[j] = Hot, Hot
		}
	}
	return p, nil
}

// Line returns the own points of row i; rows 0 and Rows+1 are the frame.
func (p *Plate) Line(i int) []float64 {
	w := p.Cols + 2
	return p.now[i*w+1 : i*w+1+p.Cols]
}

// Edge returns the outermost own points in a direction, which that neighbour's
// Frame needs. Rows lie in one piece; columns are packed. It is good until the
// next Step.
func (p *Plate) Edge(d Direction) []float64 {
	switch w := p.Cols + 2; d {
	case North:
		return p.Line(1)
	case South:
		return p.Line(p.Rows)
	case West:
		for i := range p.Rows {
			p.edges[d][i] = p.now[(i+1)*w+1]
		}
	case East:
		for i := range p.Rows {
			p.edges[d][i] = p.now[(i+1)*w+p.Cols]
		}
	}
	return p.edges[d]
}

// Frame is where what a neighbour has along its edge belongs before Framed.
func (p *Plate) Frame(d Direction) []float64 {
	switch d {
	case North:
		return p.Line(0)
	case South:
		return p.Line(p.Rows + 1)
	}
	return p.frames[d]
}

// Framed says that all frames that neighbours fill are full.
func (p *Plate) Framed() {
	if p.Neighbours[West] != Nobody {
		p.fill(0, p.frames[West])
	}
	if p.Neighbours[East] != Nobody {
		p.fill(p.Cols+1, p.frames[East])
	}
}

// fill sets column j of the frame.
func (p *Plate) fill(j int, column []float64) {
	w := p.Cols + 2
	for i, v := range column {
		p.now[(i+1)*w+j] = v
	}
}

// Step computes the next temperatures. Each product is rounded by itself, so
// that no compiler fuses it with the sum. A point's left neighbour is the point
// before and its right one the next, so each is loaded once; with two points a
// turn none is moved from one register to another.
func (p *Plate) Step() {
	w := p.Cols + 2
	for i := 1; i <= p.Rows; i++ {
		up, down := p.Line(i-1), p.Line(i+1)
		right := p.now[i*w+2:][:p.Cols]
		to := p.next[i*w+1:][:p.Cols]
		before, here := p.now[i*w], p.now[i*w+1]
		up, down = up[:len(to)], down[:len(to)]
		right = right[:len(to)]
		j := 0
		for ; j < len(to)-1; j += 2 {
			next := right[j]
			around := (up[j] + down[j]) + (before + next)
			to[j] = here + float64(Diffusion*(around-float64(4*here)))
			before = next
			next = right[j+1]
			around = (up[j+1] + down[j+1]) + (here + next)
			to[j+1] = before + float64(Diffusion*(around-float64(4*before)))
			here = next
		}
		if j < len(to) {
			around := (up[j] + down[j]) + (before + right[j])
			to[j] = here + float64(Diffusion*(around-float64(4*here)))
		}
	}
	// The frame at the plate's edge is the same in both; the rest is fetched.
	p.now, p.next = p.next, p.now
}

// Own returns the own points, row by row, without the frame.
func (p *Plate) Own() []float64 {
	own := make([]float64, 0, p.Rows*p.Cols)
	for i := 1; i <= p.Rows; i++ {
		own = append(own, p.Line(i)...)
	}
	return own
}
