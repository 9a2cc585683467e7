package main

// find makes the lists of neighbours. Cells of the length that atoms reach divide the rank's box and the room around
// it, so that what an atom reaches is in its cell and those around.
func (b *box) find() {
	const reach = cutoff + skin
	var cells [3]int
	var length vector
	for d := range cells {
		cells[d] = int((b.hi[d]-b.lo[d])/reach) + 2
		length[d] = (b.hi[d] - b.lo[d]) / float64(cells[d]-2)
	}
	cellOf := func(x vector) (at [3]int) {
		for d := range at {
			at[d] = min(max(int((x[d]-b.lo[d])/length[d]+1), 0), cells[d]-1)
		}
		return at
	}
	index := func(at [3]int) int { return (at[0]*cells[1]+at[1])*cells[2] + at[2] }
	heads, next := make([]int32, cells[0]*cells[1]*cells[2]), make([]int32, len(b.atoms)+len(b.ghosts))
	for i := range heads {
		heads[i] = -1
	}
	for i := range int32(len(next)) {
		k := index(cellOf(b.place(i)))
		next[i], heads[k] = heads[k], i
	}
	b.near = b.near[:0]
	for i := range int32(len(b.atoms)) {
		x := b.atoms[i].X
		at := cellOf(x)
		var list []int32
		for u := max(at[0]-1, 0); u < min(at[0]+2, cells[0]); u++ {
			for v := max(at[1]-1, 0); v < min(at[1]+2, cells[1]); v++ {
				for w := max(at[2]-1, 0); w < min(at[2]+2, cells[2]); w++ {
					for j := heads[index([3]int{u, v, w})]; j >= 0; j = next[j] {
						if j != i && square(x, b.place(j)) < reach*reach {
							list = append(list, j)
						}
					}
				}
			}
		}
		b.near = append(b.near, list)
	}
}

func square(x, y vector) float64 {
	u, v, w := x[0]-y[0], x[1]-y[1], x[2]-y[2]
	return u*u + v*v + w*w
}

// attract computes the forces. The potential 4 (r^-12 - r^-6) is moved so that it is 0 where it is cut off: energy
// is conserved then.
func (b *box) attract() {
	const (
		r6   = 1 / (cutoff * cutoff * cutoff * cutoff * cutoff * cutoff)
		lift = 4 * r6 * (r6 - 1)
	)
	b.potential = 0
	for i := range b.atoms {
		x, f := b.atoms[i].X, vector{}
		for _, j := range b.near[i] {
			y := b.place(j)
			rr := square(x, y)
			if rr >= cutoff*cutoff {
				continue
			}
			q := 1 / (rr * rr * rr)
			b.potential += (4*q*(q-1) - lift) / 2 // the other half is the other atom's
			by := 48 * q * (q - .5) / rr
			for d := range f {
				f[d] += by * (x[d] - y[d])
			}
		}
		b.atoms[i].F = f
	}
}
