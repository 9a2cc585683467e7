package main

import "github.com/gorun-mpi/gorun/mpi"

// halo gets the points around a rank's cube, by messages that are started again and again.
type halo struct {
	calls    []*mpi.Persistent
	requests []mpi.Request
	parts    []part
}

// part is what is exchanged with one neighbour: the places in a vector, and the values on their way.
type part struct {
	out, in        []int
	sent, received []float64
}

// newHalo prepares the exchange of cubes of n^3 points in a frame one point wide.
func newHalo(grid *mpi.Cart, n int) (*halo, error) {
	h := &halo{}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	for k := range 27 {
		d := [3]int{k/9 - 1, k/3%3 - 1, k%3 - 1}
		peer, err := grid.RankAt(at[0]+d[0], at[1]+d[1], at[2]+d[2])
		if err != nil {
			return nil, err
		}
		if peer == mpi.ProcNull || k == 13 {
			continue
		}
		p := part{out: side(d, n, 1, n), in: side(d, n, 0, n+1)}
		p.sent, p.received = make([]float64, len(p.out)), make([]float64, len(p.in))
		r, err := mpi.RecvInit(grid.Comm, p.received, peer, 26-k) // which of its sides this is to the neighbour
		if err != nil {
			return nil, err
		}
		s, err := mpi.SendInit(grid.Comm, p.sent, peer, k)
		if err != nil {
			return nil, err
		}
		h.calls, h.parts = append(h.calls, r, s), append(h.parts, p)
	}
	h.requests = make([]mpi.Request, len(h.calls))
	return h, nil
}

// side returns the places of the points in direction d: those whose coordinate is low or high where d goes down or
// up, and any within the cube where it does neither.
func side(d [3]int, n, low, high int) (places []int) {
	bounds := func(by int) (int, int) {
		switch by {
		case -1:
			return low, low
		case 1:
			return high, high
		}
		return 1, n
	}
	x0, x1 := bounds(d[0])
	y0, y1 := bounds(d[1])
	z0, z1 := bounds(d[2])
	for x := x0; x <= x1; x++ {
		for y := y0; y <= y1; y++ {
			for z := z0; z <= z1; z++ {
				places = append(places, (x*(n+2)+y)*(n+2)+z)
			}
		}
	}
	return places
}

// exchange fills the frame around a vector.
func (h *halo) exchange(v []float64) error {
	for i := range h.parts {
		p := &h.parts[i]
		for j, k := range p.out {
			p.sent[j] = v[k]
		}
	}
	if err := mpi.Startall(h.calls, h.requests); err != nil {
		return err
	}
	if err := mpi.WaitallInto(h.requests, nil); err != nil {
		return err
	}
	for i := range h.parts {
		p := &h.parts[i]
		for j, k := range p.in {
			v[k] = p.received[j]
		}
	}
	return nil
}
