// Package patterns has the collectives that benchmarks/imb and benchmarks/osu time: each with its buffers, as a call
// and as a nonblocking one.
package patterns

import "github.com/gorun-mpi/gorun/mpi"

// Buffers is what a rank needs for one size of a collective.
type Buffers struct {
	C     *mpi.Comm
	Size  int  // bytes of a block
	Root  int  // of all repetitions
	Shift bool // another root in each repetition
}

// NP returns the number of ranks.
func (b *Buffers) NP() int { return b.C.Size() }

// Rank returns the number of this rank.
func (b *Buffers) Rank() int { return b.C.Rank() }

// Bytes returns n blocks. Their pages are written, or all would be the same one.
func (b *Buffers) Bytes(n int) []byte {
	p := make([]byte, n*b.Size)
	for i := range p {
		p[i] = byte(i)
	}
	return p
}

// Floats returns a block of numbers.
func (b *Buffers) Floats() []float32 {
	f := make([]float32, b.Size/4)
	for i := range f {
		f[i] = 1
	}
	return f
}

// counts is a block for each rank.
func (b *Buffers) counts() []int {
	c := make([]int, b.NP())
	for i := range c {
		c[i] = b.Size
	}
	return c
}

// shares divides the numbers of a block among the ranks.
func (b *Buffers) shares() []int {
	c, n := make([]int, b.NP()), b.Size/4
	for i := range c {
		c[i] = n*(i+1)/b.NP() - n*i/b.NP()
	}
	return c
}

// root returns the root of repetition i.
func (b *Buffers) root(i int) int {
	if b.Shift {
		return i % b.NP()
	}
	return b.Root
}
