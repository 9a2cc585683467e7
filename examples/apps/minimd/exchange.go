package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/mpi"
)

// swap is one of the six exchanges by which a rank learns of all atoms around it: for each dimension what is near its
// lower end goes down, and what is near its upper end goes up. Ghosts that came in an earlier dimension are sent on in
// the later ones, and so reach the ranks that are neighbours across an edge or a corner.
type swap struct {
	dst, src  int
	shift     vector  // added to what is sent, where the box of the whole ends
	sent      []int32 // atoms, and ghosts as in near
	first, to int     // the ghosts received are ghosts[first:to]
	buf       []vector
}

// neighbours prepares the swaps.
func (b *box) neighbours() error {
	for d := range 3 {
		for up := range 2 {
			s := &b.swaps[2*d+up]
			var err error
			if s.src, s.dst, err = b.grid.Shift(d, 2*up-1); err != nil {
				return err
			}
			if up == 0 && b.lo[d] == 0 {
				s.shift[d] = b.edge
			}
			if up == 1 && b.hi[d] == b.edge {
				s.shift[d] = -b.edge
			}
		}
	}
	return nil
}

// pass sends to one neighbour and receives from the other, who knows how much.
func pass[T any](g *mpi.Cart, s *swap, send []T) ([]T, error) {
	r, err := mpi.Isend(g.Comm, send, s.dst, 0)
	if err != nil {
		return nil, err
	}
	got, _, err := mpi.RecvAlloc[T](g.Comm, s.src, 0)
	if err != nil {
		return nil, err
	}
	_, err = r.Wait()
	return got, err
}

// migrate sends each atom to the rank whose box it has entered, which is a neighbour. An atom never moves further than
// that between two searches.
func (b *box) migrate() error {
	b.ghosts = b.ghosts[:0]
	for k := range b.swaps {
		s, d := &b.swaps[k], k/2
		var leave []atom
		b.atoms = slices.DeleteFunc(b.atoms, func(a atom) bool {
			gone := k%2 == 0 && a.X[d] < b.lo[d] || k%2 == 1 && a.X[d] >= b.hi[d]
			if gone {
				a.X[d] += s.shift[d]
				leave = append(leave, a)
			}
			return gone
		})
		come, err := pass(b.grid, s, leave)
		if err != nil {
			return err
		}
		b.atoms = append(b.atoms, come...)
	}
	return nil
}

// place returns where an atom or ghost is.
func (b *box) place(i int32) vector {
	if int(i) < len(b.atoms) {
		return b.atoms[i].X
	}
	return b.ghosts[int(i)-len(b.atoms)]
}

// borders finds out what the neighbours need, and gets from them what this rank needs.
func (b *box) borders() error {
	b.ghosts = b.ghosts[:0]
	have := 0
	for k := range b.swaps {
		s, d := &b.swaps[k], k/2
		if k%2 == 0 { // what goes up is not what has just come from there
			have = len(b.atoms) + len(b.ghosts)
		}
		s.sent, s.buf = s.sent[:0], s.buf[:0]
		for i := range int32(have) {
			x := b.place(i)
			if k%2 == 0 && x[d] < b.lo[d]+cutoff+skin || k%2 == 1 && x[d] >= b.hi[d]-cutoff-skin {
				x[d] += s.shift[d]
				s.sent, s.buf = append(s.sent, i), append(s.buf, x)
			}
		}
		got, err := pass(b.grid, s, s.buf)
		if err != nil {
			return err
		}
		s.first = len(b.ghosts)
		b.ghosts = append(b.ghosts, got...)
		s.to = len(b.ghosts)
	}
	return nil
}

// follow gets the new places of the same ghosts.
func (b *box) follow() error {
	for k := range b.swaps {
		s := &b.swaps[k]
		for j, i := range s.sent {
			x := b.place(i)
			x[k/2] += s.shift[k/2]
			s.buf[j] = x
		}
		if _, err := mpi.Sendrecv(b.grid.Comm, s.buf, s.dst, 0, b.ghosts[s.first:s.to], s.src, 0); err != nil {
			return err
		}
	}
	return nil
}
