package cg

// Poisson is the 27-point operator on a cube of n^3 points, as in the HPCG
// benchmark: 26 on the diagonal, -1 for each neighbour of the point, corners
// included. Its value is n.
type Poisson int

// MaxPoisson keeps row numbers within 32 bits.
const MaxPoisson = 1024

func (p Poisson) Rows() int { return int(p) * int(p) * int(p) }

// point returns the coordinates of a row's point.
func (p Poisson) point(row int) (x, y, z int) {
	n := int(p)
	return row % n, row / n % n, row / (n * n)
}

// near returns the range of coordinates at distance one of i, within the cube.
func (p Poisson) near(i int) (lo, hi int) { return max(i-1, 0), min(i+1, int(p)-1) }

func (p Poisson) Nonzeros(row int) int {
	count := 1
	x, y, z := p.point(row)
	for _, i := range [...]int{x, y, z} {
		lo, hi := p.near(i)
		count *= hi - lo + 1
	}
	return count
}

// Block builds rows [first, last).
func (p Poisson) Block(first, last int) *Block {
	n := int(p)
	b := &Block{N: p.Rows(), First: first, Ptr: make([]int, 1, last-first+1)}
	b.Col = make([]int32, 0, 27*(last-first))
	b.Val = make([]float64, 0, 27*(last-first))
	for row := first; row < last; row++ {
		x, y, z := p.point(row)
		x0, x1 := p.near(x)
		y0, y1 := p.near(y)
		z0, z1 := p.near(z)
		for k := z0; k <= z1; k++ {
			for j := y0; j <= y1; j++ {
				for i := x0; i <= x1; i++ {
					col, v := (k*n+j)*n+i, -1.0
					if col == row {
						v = 26
					}
					b.Col, b.Val = append(b.Col, int32(col)), append(b.Val, v)
				}
			}
		}
		b.Ptr = append(b.Ptr, len(b.Col))
	}
	return b
}
