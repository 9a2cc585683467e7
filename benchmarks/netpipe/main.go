// Netpipe measures messages between two ranks in the manner of NetPIPE. Sizes go from 1 byte to 64 MB, with a
// perturbation around each. There are as many repetitions as fit into a given time, and medians over several
// batches of them.
//
//	gorun -np 2 ./benchmarks/netpipe                  ping-pong
//	gorun -np 2 ./benchmarks/netpipe -stream          one direction
//	gorun -np 2 ./benchmarks/netpipe -bidir           both directions at once
//	gorun -np 2 ./benchmarks/netpipe -window          one direction, 64 messages under way
//	gorun -np 2 ./benchmarks/netpipe -column          columns of a matrix, which lie in memory number by number
//	gorun -np 2 ./benchmarks/netpipe -dirty           a word of each cache line is rewritten before a send
//	gorun -np 2 ./benchmarks/netpipe -integrity       every byte is checked, nothing is timed
//	gorun -np 2 ./benchmarks/netpipe -rate            messages per second at 8 bytes
//
// -o FILE writes NetPIPE's output format: size in bytes, throughput in Mbit/s
// and time in seconds a line. -csv prints what benchmarks/compare and
// benchmarks/plot read instead of the table:
//
//	mode,bytes,seconds,low,high
//
// with the median time of one message and the quartiles around it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/mpi"
)

// options are what the command line asks for.
type options struct {
	mode    string
	dirty   bool
	sizes   []int
	batches int
	time    time.Duration // measured per size, all batches together
	csv     bool
	out     string // NetPIPE's output file; "": none
}

func main() {
	o := arguments.Parse("netpipe", parse)
	mpi.Run(func(c *mpi.Comm) error { return netpipe(c, o) })
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{mode: "pingpong"}
	f := flag.NewFlagSet("netpipe", flag.ContinueOnError)
	modes := map[string]*bool{
		"stream":    f.Bool("stream", false, "send in one direction only"),
		"window":    f.Bool("window", false, "send in one direction, 64 messages under way"),
		"column":    f.Bool("column", false, "send columns of a matrix that is 1024 numbers of 8 bytes wide"),
		"bidir":     f.Bool("bidir", false, "send in both directions at once"),
		"integrity": f.Bool("integrity", false, "check every byte instead of timing"),
		"rate":      f.Bool("rate", false, "messages per second at 8 bytes (or -sizes): windows of 64 and blocking sends"),
	}
	f.BoolVar(&o.dirty, "dirty", false, "rewrite a word of each cache line before every send, as real programs do")
	smallest := f.Int("min", 1, "smallest size in `bytes`")
	largest := f.Int("max", 64<<20, "largest size in `bytes`")
	perturb := f.Int("perturb", 3, "also measure so many `bytes` below and above each size; 0: do not")
	list := f.String("sizes", "", "measure just these sizes, in bytes, separated by `commas`")
	f.IntVar(&o.batches, "batches", 7, "median over `N` batches of repetitions")
	f.DurationVar(&o.time, "time", 300*time.Millisecond, "measured time per size")
	f.BoolVar(&o.csv, "csv", false, "print comma separated values instead of a table")
	f.StringVar(&o.out, "o", "", "write NetPIPE's output format to `FILE`")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for name, set := range modes {
		if *set {
			if o.mode != "pingpong" {
				return nil, fmt.Errorf("-%s and -%s exclude each other", o.mode, name)
			}
			o.mode = name
		}
	}
	if f.NArg() > 0 || o.batches < 1 || o.time <= 0 || *smallest < 0 || *perturb < 0 {
		return nil, fmt.Errorf("bad argument; see -help")
	}
	o.sizes = ladder(*smallest, *largest, *perturb)
	if o.mode == "rate" {
		o.sizes = []int{8}
	}
	if *list != "" {
		var err error
		if o.sizes, err = parseSizes(*list); err != nil {
			return nil, err
		}
	}
	if len(o.sizes) == 0 {
		return nil, fmt.Errorf("no size between -min %d and -max %d", *smallest, *largest)
	}
	return o, nil
}

// netpipe is the program of one rank.
func netpipe(c *mpi.Comm, o *options) error {
	if c.Size() != 2 {
		return fmt.Errorf("netpipe runs on 2 ranks, not %d", c.Size())
	}
	p := newPair(c, o.sizes, o.dirty)
	if o.mode == "integrity" {
		return integrity(p, o, os.Stdout)
	}
	var kinds []pattern
	if o.mode == "rate" {
		kinds = []pattern{window, stream}
	} else {
		kinds = []pattern{patterns[o.mode]}
	}
	if p.rank == 1 {
		return p.follow(o, kinds)
	}
	w := bufio.NewWriter(os.Stdout)
	out, err := newReport(o, w)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		for _, size := range o.sizes {
			m, err := p.measure(kind, size, o)
			if err != nil {
				return err
			}
			out.add(m)
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return out.close()
}
