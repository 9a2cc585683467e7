// Heat follows the temperature of a square plate. The upper edge is held at 100 degrees, the other edges at 0:
//
//	gorun -np 4 ./examples/heat -n 512 -steps 2000 -png plate.png
//
// It knows nothing of checkpoints: it does not import cr. The last line of
// standard output is
//
//	result heat n=512 steps=2000 digest=0123456789abcdef
//
// with a digest over the bits of the final temperatures. The digest depends neither on the number of ranks nor
// on the architecture. With -log FILE rank 0 keeps a file open, and adds the temperature of one of its points
// every -every steps. With -times two lines before the result tell how long the steps took, and how much of
// that was not computation.
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

	"github.com/gorun-mpi/gorun/mpi"
)

// options are what the command line asks for.
type options struct {
	n, steps int
	png      string // file for the picture; "": none
	log      string // file for a line now and then; "": none
	every    int    // steps from one line to the next
	times    bool
}

// maxEdge bounds the plate: rank 0 gathers n*n temperatures of 8 bytes.
const maxEdge = 1 << 15

func main() {
	var o options
	flag.IntVar(&o.n, "n", 256, "points along an edge of the plate")
	flag.IntVar(&o.steps, "steps", 1000, "steps of time")
	flag.StringVar(&o.png, "png", "", "write a picture of the final temperatures to `FILE`")
	flag.StringVar(&o.log, "log", "", "follow one of rank 0's points in `FILE`")
	flag.IntVar(&o.every, "every", 100, "steps between two lines of -log")
	flag.BoolVar(&o.times, "times", false, "also print how long the steps took")
	flag.Parse()
	if o.n < 1 || o.n > maxEdge || o.steps < 0 || o.every < 1 || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "heat: -n must be within 1..%d, -steps not negative and -every positive, and there are no other arguments\n", maxEdge)
		os.Exit(2)
	}
	mpi.Run(func(c *mpi.Comm) error { return heat(c, o, os.Stdout) })
}

// heat is the program of one rank.
func heat(c *mpi.Comm, o options, out io.Writer) error {
	r, err := newRank(c, o.n)
	if err != nil {
		return err
	}
	if err := r.run(o); err != nil {
		return err
	}
	if o.times {
		if err := r.clock.Print(c, out); err != nil {
			return err
		}
	}
	field, err := r.gather()
	if err != nil || c.Rank() != 0 {
		return err
	}
	if o.png != "" {
		if err := writePicture(o.png, field, o.n); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "result heat n=%d steps=%d digest=%s\n", o.n, o.steps, digest(field))
	return err
}

// run does the steps.
func (r *rank) run(o options) (err error) {
	var log *os.File
	if o.log != "" && r.c.Rank() == 0 {
		if log, err = os.Create(o.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	if err := r.clock.Start(r.c); err != nil {
		return err
	}
	defer r.clock.Stop()
	for step := 1; step <= o.steps; step++ {
		r.clock.Leave()
		if err := r.exchange(); err != nil {
			return err
		}
		r.clock.Return()
		r.Step()
		if log != nil && step%o.every == 0 {
			if _, err := fmt.Fprintf(log, "%d %v\n", step, r.Line(1)[r.Cols/2]); err != nil {
				return err
			}
		}
	}
	return nil
}

// digest returns the first 16 hexadecimal digits of the SHA-256 over the bits
// of the field, little-endian on any architecture.
func digest(field []float64) string {
	h := sha256.New()
	var word [8]byte
	for _, v := range field {
		binary.LittleEndian.PutUint64(word[:], math.Float64bits(v))
		h.Write(word[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
