package main

import "github.com/gorun-mpi/gorun/mpi"

// width of the matrix whose columns are sent, in elements.
const width = 1024

// columns are the first and the last one of a matrix that has as many rows as fit.
func columns(size int) (out, in mpi.View[float64]) {
	rows := max(size/8, 1)
	m := make([]float64, rows*width)
	for i := range m { // pages that were never written would all be the same one
		m[i] = float64(i)
	}
	l := mpi.Vector(rows, 1, width)
	return mpi.View[float64]{Data: m, Layout: l}, mpi.View[float64]{Data: m, Layout: l.Shift(width - 1)}
}

// runColumn is runPingPong with columns. They are made once for each size.
func runColumn(p *pair, size, n int) error {
	if p.columnsOf != size {
		p.columnsOf = size
		p.first, p.last = columns(size)
	}
	for i := range 2 * n {
		var err error
		if i%2 == p.rank {
			err = mpi.SendView(p.c, p.first, p.peer, tagData)
		} else {
			_, err = mpi.RecvView(p.c, p.last, p.peer, tagData)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
