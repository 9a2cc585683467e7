package main

import (
	"github.com/gorun-mpi/gorun/examples/heat/plate"
	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/mpi"
)

// tagField is that of the final temperatures; the tag of an edge is the
// direction in which it travels.
const tagField = int(plate.Directions)

// rank is one of those that have a part of the plate.
type rank struct {
	*plate.Plate
	c        *mpi.Comm
	n        int
	requests []mpi.Request
	clock    clock.Clock
}

func newRank(c *mpi.Comm, n int) (*rank, error) {
	p, err := plate.New(n, c.Size(), c.Rank())
	return &rank{Plate: p, c: c, n: n}, err
}

// exchange fills the frame with the neighbours' edges.
func (r *rank) exchange() error {
	r.requests = r.requests[:0]
	for d := range plate.Directions {
		if r.Neighbours[d] == plate.Nobody {
			continue
		}
		q, err := mpi.Irecv(r.c, r.Frame(d), r.Neighbours[d], int(d.Opposite()))
		if err != nil {
			return err
		}
		r.requests = append(r.requests, q)
	}
	for d := range plate.Directions {
		if r.Neighbours[d] == plate.Nobody {
			continue
		}
		q, err := mpi.Isend(r.c, r.Edge(d), r.Neighbours[d], int(d))
		if err != nil {
			return err
		}
		r.requests = append(r.requests, q)
	}
	if err := mpi.WaitallInto(r.requests, nil); err != nil {
		return err
	}
	r.Framed()
	return nil
}

// gather returns the whole field on rank 0, nil elsewhere.
func (r *rank) gather() ([]float64, error) {
	if r.c.Rank() != 0 {
		return nil, mpi.Send(r.c, r.Own(), 0, tagField)
	}
	field := make([]float64, r.n*r.n)
	r.Put(field, r.n, r.Own())
	for from := 1; from < r.c.Size(); from++ {
		points, _, err := mpi.RecvAlloc[float64](r.c, from, tagField)
		if err != nil {
			return nil, err
		}
		plate.PartOf(r.n, r.c.Size(), from).Put(field, r.n, points)
	}
	return field, nil
}
