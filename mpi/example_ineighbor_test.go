package mpi_test

import (
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleIneighborAllgather() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		around := []int{-1, -1, -1, -1} // up, down, left, right; there is nobody above the first row
		r, err := mpi.IneighborAllgather(torus(c), []int{c.Rank()}, around)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 0, around, err)
	})
	// Output: [-1 3 2 1]
}

func ExampleNeighborAllgatherInit() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		mine, around := make([]int, 1), []int{-1, -1, -1, -1}
		p, err := mpi.NeighborAllgatherInit(torus(c), mine, around)
		if err != nil {
			return err
		}
		for step := range 2 {
			mine[0] = 10*step + c.Rank()
			if err := startAndWait(p); err != nil {
				return err
			}
		}
		return show(c, 0, around, p.Free())
	})
	// Output: [-1 13 12 11]
}

func ExampleIneighborAllgatherv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send := make([]int, c.Rank()+1) // of a length that the next rank knows
		send[0] = c.Rank()
		var counts []int
		if c.Rank() > 0 {
			counts = []int{c.Rank()}
		}
		recv := make([]int, c.Rank())
		r, err := mpi.IneighborAllgatherv(chain(c), send, recv, counts, nil)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		return show(c, 2, recv, err)
	})
	// Output: [1 0]
}

func ExampleNeighborAllgathervInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := make([]int, c.Rank()+1), make([]int, c.Rank())
		var counts []int
		if c.Rank() > 0 {
			counts = []int{c.Rank()}
		}
		p, err := mpi.NeighborAllgathervInit(chain(c), send, recv, counts, nil)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] = step
			if err := startAndWait(p); err != nil {
				return err
			}
		}
		return show(c, 2, recv, p.Free())
	})
	// Output: [2 0]
}

func ExampleIneighborAlltoall() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		send := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2, 10*c.Rank() + 3}
		recv := make([]int, 4)
		r, err := mpi.IneighborAlltoall(torus(c), send, recv)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		return show(c, 0, recv, err) // from below: what rank 3 has sent up
	})
	// Output: [0 30 23 12]
}

func ExampleNeighborAlltoallInit() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		send, recv := make([]int, 4), make([]int, 4)
		p, err := mpi.NeighborAlltoallInit(torus(c), send, recv)
		if err != nil {
			return err
		}
		for step := range 2 {
			for i := range send {
				send[i] = 100*step + 10*c.Rank() + i
			}
			if err := startAndWait(p); err != nil {
				return err
			}
		}
		return show(c, 0, recv, p.Free())
	})
	// Output: [0 130 123 112]
}

func ExampleIneighborAlltoallv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv, scounts, rcounts := words(c.Rank())
		line, err := c.Cart([]int{2}, []bool{false}, false)
		if err != nil {
			return err
		}
		r, err := mpi.IneighborAlltoallv(line, send, scounts, nil, recv, rcounts, nil)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		return show(c, 0, string(recv), err)
	})
	// Output: xyz
}

func ExampleNeighborAlltoallvInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv, scounts, rcounts := words(c.Rank())
		line, err := c.Cart([]int{2}, []bool{false}, false)
		if err != nil {
			return err
		}
		p, err := mpi.NeighborAlltoallvInit(line, send, scounts, nil, recv, rcounts, nil)
		if err != nil {
			return err
		}
		for range 2 {
			if err := startAndWait(p); err != nil {
				return err
			}
			send[0]++
		}
		return show(c, 0, string(recv), p.Free())
	})
	// Output: yyz
}

// The border of a field goes to the neighbours as it lies in memory: rows in a row, columns as vectors.
func ExampleNeighborAlltoallw() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		t := torus(c)
		field, out, in := borders(c.Rank())
		err := mpi.NeighborAlltoallw(t, out, in)
		return show(c, 0, field, err)
	})
	// Output: [0 0 0 0 2 0 0 1 2 0 0 1 0 3 3 0]
}

func ExampleIneighborAlltoallw() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		field, out, in := borders(c.Rank())
		r, err := mpi.IneighborAlltoallw(torus(c), out, in)
		if err != nil {
			return err
		}
		// ... compute what needs no neighbour ...
		_, err = r.Wait()
		return show(c, 0, field, err)
	})
	// Output: [0 0 0 0 2 0 0 1 2 0 0 1 0 3 3 0]
}

func ExampleNeighborAlltoallwInit() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		field, out, in := borders(c.Rank())
		p, err := mpi.NeighborAlltoallwInit(torus(c), out, in)
		if err != nil {
			return err
		}
		for range 2 {
			if err := startAndWait(p); err != nil {
				return err
			}
			field[5]++ // a corner, which goes up and to the left
		}
		if err := startAndWait(p); err != nil {
			return err
		}
		return show(c, 0, field, p.Free())
	})
	// Output: [0 0 0 0 2 2 0 3 2 0 0 1 0 5 3 0]
}

func ExampleHalo_Start() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		line, err := c.Cart([]int{3}, []bool{false}, false)
		if err != nil {
			return err
		}
		x := []int{0, 10 * c.Rank(), 1, 10*c.Rank() + 1, 0} // three cells between two ghost cells
		halo, err := mpi.NewHalo(line, x, []int{5}, 1, false)
		if err != nil {
			return err
		}
		r, err := halo.Start()
		if err != nil {
			return err
		}
		x[2]++ // compute what needs no ghost cells
		_, err = r.Wait()
		return show(c, 1, x, err) // and now the rest
	})
	// Output: [1 10 2 11 20]
}

// startAndWait is a step of a program with a persistent call.
func startAndWait(p *mpi.Persistent) error {
	r, err := p.Start()
	if err != nil {
		return err
	}
	_, err = r.Wait()
	return err
}

// words are buffers and counts of two ranks in a line: rank 0 has a neighbour above only, rank 1 below.
func words(rank int) (send, recv []byte, scounts, rcounts []int) {
	send, recv = []byte([]string{"ab", "xyz"}[rank]), make([]byte, 3-rank)
	scounts, rcounts = make([]int, 2), make([]int, 2)
	scounts[1-rank], rcounts[1-rank] = len(send), len(recv)
	return send, recv, scounts, rcounts
}

// borders are a field of 2 x 2 cells, which hold the rank, with ghost cells around; and its sides: up, down, left, right.
func borders(rank int) (field []int, out, in []mpi.View[int]) {
	field = make([]int, 16)
	for _, i := range []int{5, 6, 9, 10} {
		field[i] = rank
	}
	row, column := mpi.Contiguous(2), mpi.Vector(2, 1, 4)
	for _, l := range []mpi.Layout{row.Shift(5), row.Shift(9), column.Shift(5), column.Shift(6)} {
		out = append(out, mpi.View[int]{field, l})
	}
	for _, l := range []mpi.Layout{row.Shift(1), row.Shift(13), column.Shift(4), column.Shift(7)} {
		in = append(in, mpi.View[int]{field, l})
	}
	return field, out, in
}
