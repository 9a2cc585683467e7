package patterns

// Check tells whether a repetition has moved what it should.
type Check struct {
	Fill  func(i int)     // before repetition i: what is sent is known, what is received is not there yet
	Wrong func(i int) int // after it: how many elements differ
}

// Everyone stands for the receiver of a block that goes to all ranks.
const Everyone = -1

// way is between which ranks block j of a buffer goes in repetition i.
type way func(j, i int) (from, to int)

// value is byte k of a block that goes from one rank to another in repetition i.
func value(from, to, i, k int) byte { return byte(31*from + 17*to + 5*i + k + k>>8 + 1) }

// Fill writes into a block what goes from one rank to another in repetition i.
func Fill(block []byte, from, to, i int) {
	for k := range block {
		block[k] = value(from, to, i, k)
	}
}

// Wrong returns how many bytes of a block are not those.
func Wrong(block []byte, from, to, i int) (n int) {
	for k, x := range block {
		if x != value(from, to, i, k) {
			n++
		}
	}
	return n
}

// blocks calls f for each block of a buffer.
func (b *Buffers) blocks(p []byte, f func(j int, block []byte)) {
	for j := 0; b.Size > 0 && j < len(p)/b.Size; j++ {
		f(j, p[j*b.Size:(j+1)*b.Size])
	}
}

// moves checks a collective that moves blocks, on the rank that receives them.
func (b *Buffers) moves(out []byte, sent way, in []byte, got way, receiver func(i int) int) Check {
	return Check{
		Fill: func(i int) {
			clear(in)
			b.blocks(out, func(j int, block []byte) {
				if from, to := sent(j, i); from == b.Rank() {
					Fill(block, from, to, i)
				}
			})
		},
		Wrong: func(i int) (n int) {
			if r := receiver(i); r != Everyone && r != b.Rank() {
				return 0
			}
			b.blocks(in, func(j int, block []byte) {
				from, to := got(j, i)
				n += Wrong(block, from, to, i)
			})
			return n
		},
	}
}

func (b *Buffers) toAll(int, int) (from, to int)      { return b.Rank(), Everyone }
func (b *Buffers) toEach(j, _ int) (from, to int)     { return b.Rank(), j }
func (b *Buffers) fromEach(j, _ int) (from, to int)   { return j, b.Rank() }
func (b *Buffers) ofEach(j, _ int) (from, to int)     { return j, Everyone }
func (b *Buffers) rootToEach(j, i int) (from, to int) { return b.root(i), j }
func (b *Buffers) rootToMe(_, i int) (from, to int)   { return b.root(i), b.Rank() }
func (b *Buffers) rootToAll(_, i int) (from, to int)  { return b.root(i), Everyone }

func everyone(int) int { return Everyone }

// number is element k of what a rank contributes to a reduction in repetition i. Sums of it are exact.
func number(rank, i, k int) float32 { return float32((rank + i + k) % 16) }

// sums checks a reduction of which in holds the elements from first on.
func (b *Buffers) sums(out, in []float32, first int, receiver func(i int) int) Check {
	return Check{
		Fill: func(i int) {
			clear(in)
			for k := range out {
				out[k] = number(b.Rank(), i, k)
			}
		},
		Wrong: func(i int) (n int) {
			if r := receiver(i); r != Everyone && r != b.Rank() {
				return 0
			}
			for k, x := range in {
				sum := float32(0)
				for rank := range b.NP() {
					sum += number(rank, i, first+k)
				}
				if x != sum {
					n++
				}
			}
			return n
		},
	}
}
