// Rows is the plate of examples/heat, cut into rows alone and with its state named. It can be checkpointed in portable images and
// restarted with another number of ranks:
//
//	gorun -np 4 -cr=self ./examples/heat/rows -n 512 -steps 2000
//	gorun checkpoint -stop JOB
//	gorun restart -np 8 latest
//
// The last line of standard output is that of examples/heat, with the same digest, whatever happens in between and
// on however many ranks.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/examples/heat/plate"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 256, "points along an edge of the plate")
	steps := flag.Int("steps", 1000, "steps of time")
	slow := flag.Duration("slow", 0, "pause after each step, to watch a short run")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return heat(c, *n, *steps, *slow, os.Stdout) })
}

// heat is the program of one rank.
func heat(c *mpi.Comm, n, steps int, slow time.Duration, out io.Writer) error {
	if n < 1 || steps < 0 {
		return errors.New("-n must be positive, and -steps not negative")
	}
	now, err := newPlate(c, n)
	if err != nil {
		return err
	}
	next, err := newPlate(c, n)
	if err != nil {
		return err
	}
	step, state := 0, cr.On(c)
	if err := errors.Join(state.Register("plate", now), state.Register("step", dist.Replicated(&step))); err != nil {
		return err
	}
	for ; step < steps; step++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := now.Exchange(); err != nil {
			return err
		}
		compute(next, now)
		if err := now.Swap(next); err != nil {
			return err
		}
		time.Sleep(slow)
	}
	all, err := now.Gather(0)
	if err == nil && c.Rank() == 0 {
		_, err = fmt.Fprintf(out, "result heat n=%d steps=%d digest=%s\n", n, steps, digest(all, n))
	}
	return err
}

// newPlate returns a cold plate, with a column more at its left and right edges. Its upper edge, a row before
// the first one, is hot.
func newPlate(c *mpi.Comm, n int) (*dist.Array[float64], error) {
	p, err := dist.New[float64](c, dist.Even(n, c.Size()), n+2, 1)
	if err != nil {
		return nil, err
	}
	if first, _ := p.Range(); first == 0 {
		for j := 1; j <= n; j++ {
			p.Row(-1)[j] = plate.Hot
		}
	}
	return p, nil
}

// compute sets a rank's rows of next to what becomes of now in one step.
func compute(next, now *dist.Array[float64]) {
	first, end := now.Range()
	for i := first; i < end; i++ {
		up, here, down, to := now.Row(i-1), now.Row(i), now.Row(i+1), next.Row(i)
		for j := 1; j < len(here)-1; j++ {
			around := (up[j] + down[j]) + (here[j-1] + here[j+1])
			to[j] = here[j] + float64(plate.Diffusion*(around-float64(4*here[j])))
		}
	}
}

// digest returns the first 16 hexadecimal digits of the SHA-256 over the bits of the plate without its edges,
// little-endian on any architecture.
func digest(rows []float64, n int) string {
	h := sha256.New()
	var word [8]byte
	for ; len(rows) > 0; rows = rows[n+2:] {
		for _, v := range rows[1 : n+1] {
			binary.LittleEndian.PutUint64(word[:], math.Float64bits(v))
			h.Write(word[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
