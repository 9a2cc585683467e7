package self

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
)

// BenchmarkResized has ranks at once read 256 MB that 4 ranks have saved: as many, each its own image, and others. The ratio is
// to as many.
func BenchmarkResized(b *testing.B) {
	const rows, width = 1 << 13, 1 << 12
	x := noise(rows * width)
	part := func(rank, size int) *rowsOf[float64] {
		return &rowsOf[float64]{rows, width, rows * rank / size, x[rows*rank/size*width : rows*(rank+1)/size*width]}
	}
	p := images(b, b.TempDir(), 4, false, func(rank int, r *Registry) []error { return []error{r.Register("x", part(rank, 4))} })
	var same float64
	for _, size := range []int{4, 1, 3, 8, 32} {
		b.Run(fmt.Sprint("4to", size), func(b *testing.B) {
			b.SetBytes(rows * width * 8)
			for b.Loop() {
				var all sync.WaitGroup
				for rank := range size {
					all.Go(func() {
						if err := fillPart(p, rank, size, part(rank, size)); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
			took := b.Elapsed().Seconds() / float64(b.N)
			if size == 4 {
				same = took
			}
			if same > 0 {
				b.ReportMetric(took/same, "ratio")
			}
		})
	}
}

// fillPart reads one rank's rows.
func fillPart(p *piled, rank, size int, into *rowsOf[float64]) error {
	if size == len(p.good) {
		s, err := Open(image.Path(p.good[rank]))
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Fill("x", into)
	}
	s, err := OpenResized(p, len(p.good), rank, size)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Fill("x", into)
}
