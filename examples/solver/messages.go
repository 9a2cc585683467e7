package main

import (
	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/examples/solver/cg"
	"github.com/gorun-mpi/gorun/mpi"
)

// messages are those of the conjugate gradients. The clock sees all of them as
// not computation.
type messages struct {
	c          *mpi.Comm
	neighbours []cg.Neighbour
	requests   []mpi.Request
	clock      clock.Clock
}

func (m *messages) Fetch(x []float64) error {
	m.clock.Leave()
	m.requests = m.requests[:0]
	for i := range m.neighbours {
		n := &m.neighbours[i]
		r, err := mpi.Irecv(m.c, n.Halo(x), n.Rank, tagHalo)
		if err != nil {
			return err
		}
		m.requests = append(m.requests, r)
	}
	for i := range m.neighbours {
		n := &m.neighbours[i]
		r, err := mpi.Isend(m.c, n.Pack(x), n.Rank, tagHalo)
		if err != nil {
			return err
		}
		m.requests = append(m.requests, r)
	}
	m.clock.Return()
	return nil
}

func (m *messages) Fetched() error {
	m.clock.Leave()
	err := mpi.WaitallInto(m.requests, nil)
	m.clock.Return()
	return err
}

func (m *messages) Sum(numbers []int64) error {
	m.clock.Leave()
	err := mpi.AllreduceInPlace(m.c, numbers, mpi.Sum)
	m.clock.Return()
	return err
}
