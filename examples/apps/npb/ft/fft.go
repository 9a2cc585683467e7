package main

import (
	"math"
	"math/cmplx"
)

// width is the number of series that are transformed together, to use whole lines of the cache.
const width = 16

// fft transforms series of n complex numbers, n being a power of two, by Stockham's method: each pass leaves the
// numbers in the order that the next one needs.
type fft struct {
	n     int
	roots [2][]complex128 // e^(+-2 pi i k/n)
	a, b  []complex128    // series beside each other
}

const (
	forward  = 0
	backward = 1
)

func newFFT(n int) *fft {
	f := &fft{n: n, a: make([]complex128, n*width), b: make([]complex128, n*width)}
	for k := range n {
		w := cmplx.Rect(1, 2*math.Pi*float64(k)/float64(n))
		f.roots[forward] = append(f.roots[forward], w)
		f.roots[backward] = append(f.roots[backward], cmplx.Conj(w))
	}
	return f
}

// transform transforms count series in x. The k-th number of the j-th one lies at j*step + k*stride.
func (f *fft) transform(x []complex128, direction, count, step, stride int) {
	for j := 0; j < count; j += width {
		m := min(width, count-j)
		part := x[j*step:]
		for k := range f.n {
			line := f.a[k*m : (k+1)*m]
			for i := range line {
				line[i] = part[i*step+k*stride]
			}
		}
		f.passes(direction, m)
		for k := range f.n {
			for i, v := range f.a[k*m : (k+1)*m] {
				part[i*step+k*stride] = v
			}
		}
	}
}

// passes transforms m series in a.
func (f *fft) passes(direction, m int) {
	roots := f.roots[direction]
	turn := roots[f.n/4] // i or -i
	n, s := f.n, 1
	for ; n >= 4; n, s = n/4, s*4 {
		pass4(f.a, f.b, roots, turn, n/4, s, m)
		f.a, f.b = f.b, f.a
	}
	if n == 2 {
		half := s * m
		for i := range half {
			u, v := f.a[i], f.a[i+half]
			f.b[i], f.b[i+half] = u+v, u-v
		}
		f.a, f.b = f.b, f.a
	}
}

// pass4 splits s*m interleaved series of 4 quarter numbers into four times as many of a quarter each.
func pass4(x, y, roots []complex128, turn complex128, quarter, s, m int) {
	l := s * m
	for p := range quarter {
		w1, w2, w3 := roots[p*s], roots[2*p*s], roots[3*p*s]
		x0, x1, x2, x3 := x[l*p:][:l], x[l*(p+quarter):][:l], x[l*(p+2*quarter):][:l], x[l*(p+3*quarter):][:l]
		y0, y1, y2, y3 := y[4*l*p:][:l], y[l*(4*p+1):][:l], y[l*(4*p+2):][:l], y[l*(4*p+3):][:l]
		for q, a := range x0 {
			b, c, d := x1[q], x2[q], x3[q]
			sum, difference := b+d, turn*(b-d)
			y0[q] = a + c + sum
			y1[q] = w1 * (a - c + difference)
			y2[q] = w2 * (a + c - sum)
			y3[q] = w3 * (a - c - difference)
		}
	}
}
