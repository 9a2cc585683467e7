// Life plays Conway's game on a torus, which a grid of ranks divides in blocks:
//
//	gorun -np 4 -cr ./examples/life -n 1024 -moves 250
//
// The start is a field of gliders, far enough apart never to meet. A glider is the same after four generations, one
// cell further down and to the right. So each rank knows what its cells must be in the end.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 256, "cells along an edge of the torus, 8 at least")
	moves := flag.Int("moves", 100, "how far the gliders go: four generations for each cell")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return life(c, *n, *moves, os.Stdout) })
}

// board is a rank's block of the torus, in a frame of its neighbours' cells.
type board struct {
	n          int // edge of the torus
	row, col   int // of the torus, where the block begins
	rows, cols int // of the block with its frame
	now, next  []uint8
}

// life is the program of one rank.
func life(c *mpi.Comm, n, moves int, out io.Writer) error {
	if n < 8 || moves < 0 {
		return errors.New("-n must be 8 or more, and -moves not negative")
	}
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{true, true}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	b, err := newBoard(grid, n)
	if err != nil {
		return err
	}
	halo, err := mpi.NewHalo(grid, b.now, []int{b.rows, b.cols}, 1, true)
	if err != nil {
		return fmt.Errorf("%d x %d cells for %v ranks: %w", n, n, dims, err)
	}
	state, generation := cr.On(c), 0
	if err := errors.Join(state.Register("generation", &generation), state.Register("cells", &b.now)); err != nil {
		return err
	}
	for ; generation < 4*moves; generation++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := halo.Exchange(); err != nil {
			return err
		}
		b.step()
	}
	alive, wrong := b.check(moves)
	total, err := mpi.ReduceValue(c, alive, mpi.Sum, 0)
	if err != nil {
		return err
	}
	app.Report(c, out, "%d cells are alive after %d generations\n", total, generation)
	return app.Verdict(c, out, wrong)
}

func newBoard(grid *mpi.Cart, n int) (*board, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	top, bottom := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	b := &board{n: n, row: top, col: left, rows: bottom - top + 2, cols: right - left + 2}
	b.now, b.next = make([]uint8, b.rows*b.cols), make([]uint8, b.rows*b.cols)
	for i := 1; i < b.rows-1; i++ {
		for j := 1; j < b.cols-1; j++ {
			b.now[i*b.cols+j] = glider(n, top+i-1, left+j-1)
		}
	}
	return b, nil
}

// glider tells whether a cell of the torus is alive at the start: a glider in each square of 8 x 8.
func glider(n, i, j int) uint8 {
	if i/8 >= n/8 || j/8 >= n/8 {
		return 0
	}
	switch [2]int{i % 8, j % 8} {
	case [2]int{2, 3}, [2]int{3, 4}, [2]int{4, 2}, [2]int{4, 3}, [2]int{4, 4}:
		return 1
	}
	return 0
}

// step computes the next generation.
func (b *board) step() {
	for i := 1; i < b.rows-1; i++ {
		up, here, down := b.now[(i-1)*b.cols:], b.now[i*b.cols:], b.now[(i+1)*b.cols:]
		for j := 1; j < b.cols-1; j++ {
			around := up[j-1] + up[j] + up[j+1] + here[j-1] + here[j+1] + down[j-1] + down[j] + down[j+1]
			b.next[i*b.cols+j] = 0
			if around == 3 || around == 2 && here[j] == 1 {
				b.next[i*b.cols+j] = 1
			}
		}
	}
	copy(b.now, b.next)
}

// check compares with the start, moved so far.
func (b *board) check(moves int) (alive int, wrong error) {
	back := b.n - moves%b.n
	for i := 1; i < b.rows-1; i++ {
		for j := 1; j < b.cols-1; j++ {
			row, col := b.row+i-1, b.col+j-1
			cell := b.now[i*b.cols+j]
			alive += int(cell)
			if cell != glider(b.n, (row+back)%b.n, (col+back)%b.n) {
				wrong = fmt.Errorf("cell (%d, %d) is %d", row, col, cell)
			}
		}
	}
	return alive, wrong
}
