// Ring passes a token round all ranks, a few times, each rank adding one:
//
//	gorun -np 4 ./examples/ring
//
// With -cr it can be checkpointed after every lap, and goes on from there.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	laps := flag.Int("laps", 3, "rounds of the token")
	slow := flag.Duration("slow", 0, "pause after each lap")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return ring(c, *laps, *slow, os.Stdout) })
}

// ring is the program of one rank.
func ring(c *mpi.Comm, laps int, slow time.Duration, out io.Writer) error {
	lap, token := 0, 0
	state := cr.On(c)
	if err := state.Register("lap", &lap); err != nil {
		return err
	}
	if err := state.Register("token", &token); err != nil {
		return err
	}
	for ; lap < laps; lap++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := pass(c, &token); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Fprintf(out, "lap %d: the token is back and says %d\n", lap+1, token)
		}
		time.Sleep(slow)
	}
	return nil
}

// pass sends the token from rank 0 once round.
func pass(c *mpi.Comm, token *int) (err error) {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	if c.Rank() == 0 {
		if err := mpi.SendValue(c, *token+1, next, 0); err != nil {
			return err
		}
		*token, _, err = mpi.RecvValue[int](c, before, 0)
		return err
	}
	if *token, _, err = mpi.RecvValue[int](c, before, 0); err != nil {
		return err
	}
	return mpi.SendValue(c, *token+1, next, 0)
}
