package main

import "github.com/gorun-mpi/gorun/mpi"

// word is the size of what the buffers hold.
const word = 8

// party is one rank, with its buffers.
type party struct {
	c       *mpi.Comm
	out, in []float64
	count   [1]int
	result  float64 // of a computation, which the compiler would leave out otherwise
}

// newParty makes buffers of so many bytes, and of one word for each rank.
func newParty(c *mpi.Comm, largest int) *party {
	n := max(largest/word, c.Size())
	p := &party{c: c, out: make([]float64, n), in: make([]float64, n)}
	for i := range p.out { // pages that were never written would all be the same one
		p.out[i], p.in[i] = float64(i), 1
	}
	return p
}

// share is what one rank has of a buffer of so many bytes, in words.
func (p *party) share(size int) int { return max(1, size/word/p.c.Size()) }

// op is a collective, called n times by all ranks at once.
type op struct {
	name string
	bare bool // carries no data
	run  func(p *party, size, n int) error
}

var ops = []op{
	{"barrier", true, func(p *party, _, n int) error {
		return times(n, func(int) error { return mpi.Barrier(p.c) })
	}},
	{"allreduce", false, func(p *party, size, n int) error {
		k := size / word
		return times(n, func(int) error { return mpi.Allreduce(p.c, p.out[:k], p.in[:k], mpi.Sum) })
	}},
	{"bcast", false, func(p *party, size, n int) error {
		k := size / word
		return times(n, func(i int) error { return mpi.Bcast(p.c, p.in[:k], i%p.c.Size()) })
	}},
	{"alltoall", false, func(p *party, size, n int) error {
		k := p.share(size) * p.c.Size()
		return times(n, func(int) error { return mpi.Alltoall(p.c, p.out[:k], p.in[:k]) })
	}},
	{"allgather", false, func(p *party, size, n int) error {
		k := p.share(size)
		return times(n, func(int) error { return mpi.Allgather(p.c, p.out[:k], p.in[:k*p.c.Size()]) })
	}},
	{"reduce_scatter", false, func(p *party, size, n int) error {
		k := p.share(size)
		return times(n, func(int) error {
			return mpi.ReduceScatterBlock(p.c, p.out[:k*p.c.Size()], p.in[:k], mpi.Sum)
		})
	}},
}

// times calls f so often, until it fails.
func times(n int, f func(i int) error) error {
	for i := range n {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

func opNames() []string {
	var names []string
	for _, o := range ops {
		names = append(names, o.name)
	}
	return names
}
