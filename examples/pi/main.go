// Pi adds up the area under 4/(1+x²) between 0 and 1:
//
//	gorun -np 4 -cr ./examples/pi -n 1000000000
//
// Each rank takes every size-th strip. One Allreduce adds the sums. The state of a rank is how far it has come and
// its sum, so a portable image of it has a few bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 100_000_000, "strips")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return pi(c, *n, 1<<20, os.Stdout) })
}

// pi is the program of one rank. It comes to a Point whenever it has added so many strips.
func pi(c *mpi.Comm, n, block int, out io.Writer) error {
	if n < 1 {
		return errors.New("-n must be positive")
	}
	state, done, sum := cr.On(c), 0, 0.0 // strips that all ranks have done, this rank's sum
	if err := errors.Join(state.Register("done", &done), state.Register("sum", &sum)); err != nil {
		return err
	}
	for done < n {
		if err := state.Point(); err != nil {
			return err
		}
		end := min(done+block*c.Size(), n)
		for i := done + c.Rank(); i < end; i += c.Size() {
			x := (float64(i) + .5) / float64(n)
			sum += 4 / (1 + x*x)
		}
		done = end
	}
	area, err := mpi.AllreduceValue(c, sum/float64(n), mpi.Sum)
	if err != nil {
		return err
	}
	app.Report(c, out, "pi is about %.15f\n", area)
	return app.Verdict(c, out, check(area, n))
}

// check compares with pi. The midpoint rule errs by 1/12n² here, and rounding by a little more.
func check(area float64, n int) error {
	if d := math.Abs(area - math.Pi); !(d <= 1/(11*float64(n)*float64(n))+1e-11) {
		return fmt.Errorf("off by %g", d)
	}
	return nil
}
