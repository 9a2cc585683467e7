package main

import "context"

// reach is how far a cell sees.
const reach = 2

// part is the rows of one rank, with a halo of reach rows above and below.
type part struct {
	columns int
	first   int // row of the torus
	own     int // rows
	cells   []uint32
	next    []uint32
}

// messages is what ranks say to each other, over whatever connects them.
type messages interface {
	// shift sends to one neighbour and receives from another. The tag tells shifts of one step apart.
	shift(ctx context.Context, to int, send []uint32, from int, recv []uint32, tag int) error
	// sum adds up at rank 0.
	sum(ctx context.Context, v uint64) (uint64, error)
	place() (rank, size int)
}

func newPart(rows, columns, rank, size int) *part {
	first, end := rows*rank/size, rows*(rank+1)/size
	p := &part{columns: columns, first: first, own: end - first}
	p.cells = make([]uint32, (p.own+2*reach)*columns)
	p.next = make([]uint32, len(p.cells))
	for i := range p.own * columns {
		p.cells[reach*columns+i] = uint32(first*columns+i) * 2654435761
	}
	return p
}

// rows are some rows of the part, of which the first is a halo's.
func (p *part) rows(from, n int) []uint32 { return p.cells[from*p.columns : (from+n)*p.columns] }

// exchange fills the halo.
func (p *part) exchange(ctx context.Context, m messages) error {
	rank, size := m.place()
	up, down := (rank+size-1)%size, (rank+1)%size
	if err := m.shift(ctx, up, p.rows(reach, reach), down, p.rows(reach+p.own, reach), 0); err != nil {
		return err
	}
	return m.shift(ctx, down, p.rows(p.own, reach), up, p.rows(0, reach), 1)
}

// step computes all own cells anew.
func (p *part) step(n uint32) {
	w := p.columns
	for r := reach; r < reach+p.own; r++ {
		c := p.cells
		for x := range w {
			e1, e2, w1, w2 := x+1, x+2, x-1, x-2
			if x < 2 || x >= w-2 {
				e1, e2, w1, w2 = (x+1)%w, (x+2)%w, (x+w-1)%w, (x+w-2)%w
			}
			i := r * w
			p.next[i+x] = 5*c[i+x] + c[i+e1] + c[i+w1] + c[i-w+x] + c[i+w+x] + 3*(c[i+e2]+c[i+w2]+c[i-2*w+x]+c[i+2*w+x]) + n
		}
	}
	p.cells, p.next = p.next, p.cells
}

// digest is a sum over cells, so that it does not matter who has which.
func (p *part) digest() (sum uint64) {
	for i, v := range p.rows(reach, p.own) {
		h := uint64(p.first*p.columns+i)<<32 | uint64(v)
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		sum += h
	}
	return sum
}
