// Package dist has arrays that are distributed over the ranks of a communicator, by rows (Array) or in blocks of a plane
// (Grid). A program that keeps its state in them can be restarted with another number of ranks.
//
//	rows := dist.Even(n, c.Size())                    // rank r has the rows from rows[r] up to rows[r+1]
//	x, err := dist.New[float64](c, rows, width, 1)    // and a copy of one row of each neighbour
//	...
//	state := cr.On(c)
//	state.Register("x", x)                            // by global index
//	state.Register("step", dist.Replicated(&step))    // the same on all ranks
//	for ; step < steps; step++ {
//		if err := state.Point(); err != nil {
//			return err
//		}
//		if err := x.Exchange(); err != nil {      // the halo
//			return err
//		}
//		... compute x.Row(i) of x.Row(i-1) and x.Row(i+1)
//	}
//
// # Memory
//
// The rows of a rank lie in one piece, with the halo before and behind them:
//
//	Row(first-halo) ... | Row(first) ... Row(end-1) | ... Row(end+halo-1)
//	      halo          |           Own()           |        halo
//
// Exchange fills the halo with what other ranks have of these rows, of several ranks if their parts are thin. Halo rows
// before the first row and behind the last one of all belong to the program: a boundary condition may lie there.
//
// # Another number of ranks
//
// A restart with another number of ranks (gorun restart -np, mpitest.Resize) runs the program from the top, as any
// restart from portable images does. It makes its arrays for the ranks that there are now, and Register reads the rows that
// each rank has now, out of the images that have them. Halos are not saved: exchange them before their first use.
// The rows of all ranks must be the same ones, whatever their number, and in the order of the world's ranks. Over is for memory that
// the program has, Held for rows on devices.
//
// All that the program registers must be distributed or Replicated, and all messages received at its Points. Else such a
// restart is refused, and the error names what is in the way. A restart with as many ranks as there were has no such rules.
package dist

import "github.com/gorun-mpi/gorun/cr/self"

// Replicated is for a variable *ptr that is the same on all ranks at each Point, such as the number of a step. It is
// registered as cr.Register("step", dist.Replicated(&step)). On another number of ranks all get this value. That it was
// the same on all is checked then, and only then: a restart with as many ranks as there were gives each its own.
func Replicated(ptr any) self.Replicated { return self.Replicated{Ptr: ptr} }
