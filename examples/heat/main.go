// Heat follows the temperature of a square plate whose upper edge is held at 100
// degrees and whose other edges are held at 0:
//
//	gorun -np 4 ./examples/heat -n 512 -steps 2000 -png plate.png
//
// It knows nothing of checkpoints: it does not import cr. The last line of
// standard output is
//
//	result heat n=512 steps=2000 digest=0123456789abcdef
//
// with a digest over the bits of the final temperatures, which depends neither
// on the number of ranks nor on the architecture.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
}

// maxEdge bounds the plate: rank 0 gathers n*n temperatures of 8 bytes.
const maxEdge = 1 << 15

func main() {
	var o options
	flag.IntVar(&o.n, "n", 256, "points along an edge of the plate")
	flag.IntVar(&o.steps, "steps", 1000, "steps of time")
	flag.StringVar(&o.png, "png", "", "write a picture of the final temperatures to `FILE`")
	flag.Parse()
	if o.n < 1 || o.n > maxEdge || o.steps < 0 || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "heat: -n must be within 1..%d and -steps not negative, and there are no other arguments\n", maxEdge)
		os.Exit(2)
	}
	mpi.Run(func(c *mpi.Comm) error { return heat(c, o, os.Stdout) })
}

// heat is the program of one rank.
func heat(c *mpi.Comm, o options, out io.Writer) error {
	p, err := newPlate(c, o.n)
	if err != nil {
		return err
	}
	for range o.steps {
		if err := p.exchange(); err != nil {
			return err
		}
		p.step()
	}
	field, err := p.gather()
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
