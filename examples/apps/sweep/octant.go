package main

import (
	"math"

	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// sweeper is a rank's part of the cube: all of x, and some of y and z.
type sweeper struct {
	c                  *mpi.Comm
	n, ny, nz          int
	block              int          // planes in a message
	directions         [][3]float64 // in the octant where all is positive
	flux, next, source []float64    // of each cell
	y, z               line
}

// line is the ranks along a dimension, and what goes from one to the next: the flux in each direction through the
// faces between them.
type line struct {
	*mpi.Cart
	now, sent []float64
	last      mpi.Request // the send before
}

func newSweeper(grid *mpi.Cart, n, angles, block int) (*sweeper, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	y0, y1 := app.Range(n, dims[0], at[0])
	z0, z1 := app.Range(n, dims[1], at[1])
	s := &sweeper{c: grid.Comm, n: n, ny: y1 - y0, nz: z1 - z0, block: min(block, n)}
	cells := n * s.ny * s.nz
	s.flux, s.next, s.source = make([]float64, cells), make([]float64, cells), make([]float64, cells)
	for a := range angles { // a spiral, each turn of it at another height
		up := (float64(a) + .5) / float64(angles)
		turn := math.Mod(float64(a)*.6180339887, 1)*math.Pi/2*.9 + .05*math.Pi/2
		s.directions = append(s.directions, [3]float64{math.Sqrt(1-up*up) * math.Cos(turn), math.Sqrt(1-up*up) * math.Sin(turn), up})
	}
	if s.y.Cart, err = grid.Sub([]bool{true, false}); err != nil {
		return nil, err
	}
	if s.z.Cart, err = grid.Sub([]bool{false, true}); err != nil {
		return nil, err
	}
	s.y.now, s.z.now = make([]float64, s.block*s.nz*angles), make([]float64, s.block*s.ny*angles)
	s.y.sent, s.z.sent = make([]float64, len(s.y.now)), make([]float64, len(s.z.now))
	return s, nil
}

// receive waits for what comes from the rank before, which is nothing where there is none. back is 1 where particles
// go down.
func (l *line) receive(back, length int) error {
	src, _, err := l.Shift(0, 1-2*back)
	if err != nil {
		return err
	}
	l.now = l.now[:length]
	clear(l.now)
	_, err = mpi.Recv(l.Comm, l.now, src, 0)
	return err
}

// hand hands it on to the rank behind. It reports whether there is one.
func (l *line) hand(back int) (bool, error) {
	_, dst, err := l.Shift(0, 1-2*back)
	if err != nil || dst == mpi.ProcNull {
		return false, err
	}
	if _, err := l.last.Wait(); err != nil { // sent is free again
		return false, err
	}
	l.sent = append(l.sent[:0], l.now...)
	l.last, err = mpi.Isend(l.Comm, l.sent, dst, 0)
	return true, err
}

// octant follows the particles of an octant through the rank's cells. back tells for each dimension whether they go
// down.
func (s *sweeper) octant(back [3]int, b *balance) error {
	angles := len(s.directions)
	x := make([]float64, s.ny*s.nz*angles)
	for first := 0; first < s.n; first += s.block {
		planes := min(s.block, s.n-first)
		if err := s.y.receive(back[1], planes*s.nz*angles); err != nil {
			return err
		}
		if err := s.z.receive(back[2], planes*s.ny*angles); err != nil {
			return err
		}
		for p := range planes {
			s.plane(first+p, back, x, s.y.now[p*s.nz*angles:], s.z.now[p*s.ny*angles:])
		}
		if on, err := s.y.hand(back[1]); err != nil {
			return err
		} else if !on {
			b.Leaked[1][back[1]] += s.leak(s.y.now, 1)
		}
		if on, err := s.z.hand(back[2]); err != nil {
			return err
		} else if !on {
			b.Leaked[2][back[2]] += s.leak(s.z.now, 2)
		}
	}
	b.Leaked[0][back[0]] += s.leak(x, 0)
	for _, l := range []*line{&s.y, &s.z} {
		if _, err := l.last.Wait(); err != nil {
			return err
		}
		l.last = mpi.Request{}
	}
	return nil
}

// plane goes through a plane of cells. x, y and z hold what comes in through its faces, and then what goes out.
func (s *sweeper) plane(i int, back [3]int, x, y, z []float64) {
	angles := len(s.directions)
	weight, by := 1/float64(8*angles), 2*float64(s.n)
	if back[0] == 1 {
		i = s.n - 1 - i
	}
	for jj := range s.ny {
		j := jj
		if back[1] == 1 {
			j = s.ny - 1 - jj
		}
		for kk := range s.nz {
			k := kk
			if back[2] == 1 {
				k = s.nz - 1 - kk
			}
			cell := (i*s.ny+j)*s.nz + k
			px, py, pz := x[(j*s.nz+k)*angles:][:angles], y[k*angles:][:angles], z[j*angles:][:angles]
			sum := 0.0
			for a, d := range s.directions {
				mean := (s.source[cell] + by*(d[0]*px[a]+d[1]*py[a]+d[2]*pz[a])) / (total + by*(d[0]+d[1]+d[2]))
				px[a], py[a], pz[a] = 2*mean-px[a], 2*mean-py[a], 2*mean-pz[a]
				sum += mean
			}
			s.next[cell] += weight * sum
		}
	}
}

// leak adds what goes out through faces in dimension d.
func (s *sweeper) leak(face []float64, d int) (sum float64) {
	angles := len(s.directions)
	for i, v := range face {
		sum += v * s.directions[i%angles][d]
	}
	return sum / float64(8*angles*s.n*s.n)
}
