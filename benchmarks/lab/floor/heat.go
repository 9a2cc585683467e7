package main

import (
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/examples/heat/plate"
)

// mostEdge bounds a plate: its edges have room among the shared buffers.
const mostEdge = mostBytes / (mostProcs * 2 * int(plate.Directions) * 8)

// startHeat: the program of examples/heat, whose processes put the edges of
// their parts where the neighbours find them.
func startHeat(s *shared) doing {
	p, steps := s.newPlate(), uint64(0)
	edge := func(mem []byte, rank int, d plate.Direction, n int) []float64 {
		i := (rank*int(plate.Directions)+int(d))*2 + int(steps%2) // the neighbour may be a step behind
		return asFloats(s.buffer(mem, i, 8*s.Edge))[:n]
	}
	exchange := func() {
		steps++
		for d := range plate.Directions {
			if p.Neighbours[d] != plate.Nobody {
				out := p.Edge(d)
				copy(edge(s.mem, s.Rank, d, len(out)), out)
			}
		}
		s.set(mark, steps)
		for d := range plate.Directions {
			if from := p.Neighbours[d]; from != plate.Nobody {
				s.await(s.word(from, mark), steps)
				in := p.Frame(d)
				copy(in, edge(s.seen, from, d.Opposite(), len(in)))
			}
		}
		p.Framed()
	}
	return doing{func() {
		left := time.Now()
		exchange()
		s.outside += time.Since(left)
		p.Step()
	}, func() error { return s.isPart(p, int(steps)) }}
}

// startHeatAlone: the same without neighbours, which is wrong and as much
// computation.
func startHeatAlone(s *shared) doing {
	return doing{s.newPlate().Step, func() error { return nil }}
}

func (s *shared) newPlate() *plate.Plate {
	p, err := plate.New(s.Edge, s.Procs, s.Rank)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// isPart compares a part with what one process alone computes.
func (s *shared) isPart(p *plate.Plate, steps int) error {
	whole, err := plate.New(s.Edge, 1, 0)
	if err != nil {
		return err
	}
	for range steps {
		whole.Step()
	}
	field := whole.Own()
	want := slices.Clone(field)
	p.Put(field, s.Edge, p.Own())
	if !slices.Equal(field, want) {
		return fmt.Errorf("another result after %d steps", steps)
	}
	return nil
}
