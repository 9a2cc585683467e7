package plate

// Part says which points of a plate a rank has.
type Part struct {
	Row, Col   int // of the first one
	Rows, Cols int
}

// PartOf returns the part of one of size ranks in a plate of n x n points.
func PartOf(n, size, rank int) Part {
	g := arrange(size)
	r, k := rank/g.cols, rank%g.cols
	p := Part{Row: r * n / g.rows, Col: k * n / g.cols}
	p.Rows, p.Cols = (r+1)*n/g.rows-p.Row, (k+1)*n/g.cols-p.Col
	return p
}

// Put copies the points of the part, row by row, to their places in a plate of n x n points.
func (p Part) Put(field []float64, n int, points []float64) {
	for i := range p.Rows {
		copy(field[(p.Row+i)*n+p.Col:], points[i*p.Cols:(i+1)*p.Cols])
	}
}

// grid is an arrangement of ranks in rows and columns, row by row.
type grid struct{ rows, cols int }

// arrange returns the most nearly square grid of size ranks.
func arrange(size int) grid {
	g := grid{1, size}
	for r := 1; r*r <= size; r++ {
		if size%r == 0 {
			g = grid{r, size / r}
		}
	}
	return g
}
