package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
)

// options are what the command line asks for.
type options struct {
	tests   []string
	procs   []int // nil: each test's own
	sizes   []int // of copies, in bytes
	bulk    int   // size of long buffers
	pieces  []int
	edge    int // points along that of heat's plate
	cube    int // points along an edge of solver's cube
	time    time.Duration
	batches int
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("floor", flag.ContinueOnError)
	names := f.String("tests", strings.Join(testNames(), ","), "what to measure")
	procs := f.String("procs", "", "numbers of `processes`, instead of each test's own")
	sizes := f.String("sizes", "1024,8192,65536", "`bytes` that are copied in and out")
	pieces := f.String("pieces", "65536,262144,524288,1048576", "`bytes` of long buffers that a process puts into shared memory at once")
	f.IntVar(&o.bulk, "bulk", 1<<20, "`bytes` of long buffers")
	f.IntVar(&o.edge, "edge", 256, "points along an edge of heat's plate")
	f.IntVar(&o.cube, "cube", 24, "points along an edge of solver's cube")
	f.DurationVar(&o.time, "time", 200*time.Millisecond, "measured time of each")
	f.IntVar(&o.batches, "batches", 9, "median over `N` batches")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var errs [5]error
	o.tests, errs[0] = arguments.Names("test", *names, testNames())
	if *procs != "" {
		o.procs, errs[1] = arguments.Numbers(*procs, 2, mostProcs)
	}
	o.sizes, errs[2] = arguments.Numbers(*sizes, 1, mostBytes/2)
	o.pieces, errs[3] = arguments.Numbers(*pieces, 1, mostBytes)
	if o.batches < 1 || o.time <= 0 || o.edge < 1 || o.edge > mostEdge || o.cube < 1 || o.cube > mostCube || o.bulk < 1 || o.bulk > mostBytes/2 || f.NArg() > 0 {
		errs[4] = errors.New("bad argument; see -help")
	}
	return o, errors.Join(errs[:]...)
}

// row is one of what is printed: the fastest of its tasks.
type row struct {
	name  string
	tasks []task
}

// test is a kind of measurement.
type test struct {
	name  string
	procs []int // nil: two, always
	rows  func(o *options, t task) []row
}

var tests = []test{
	{"barrier", []int{2, 4, 16, 64}, plain("barrier")},
	{"pingpong", nil, word},
	{"copy", nil, copies},
	{"stream", nil, plain("stream, 1 a line", "stream, 7 a line")},
	{"bcast", []int{2, 4, 16, 64}, plain("bcast, yielding", "bcast, sleeping")},
	{"words", []int{4, 16, 64}, plain(wordWorks()...)},
	{"bulk", []int{16, 64}, longs},
	{"heat", []int{2, 8, 64}, plain("heat", "heat, alone")},
	{"solver", []int{2, 8, 64}, plain("solver", "solver, alone")},
}

func testNames() []string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return names
}

// rows are all that is asked for.
func rows(o *options) (all []row) {
	for _, t := range tests {
		if !slices.Contains(o.tests, t.name) {
			continue
		}
		procs := []int{2}
		if t.procs != nil {
			if procs = o.procs; procs == nil {
				procs = t.procs
			}
		}
		for _, n := range procs {
			all = append(all, t.rows(o, task{Procs: n, Edge: o.edge, Cube: o.cube, Time: o.time, Batches: o.batches})...)
		}
	}
	return all
}

// plain are rows of one task each, if there is room for it.
func plain(names ...string) func(o *options, t task) []row {
	return func(o *options, t task) (all []row) {
		for _, t.Work = range names {
			if room := works[t.Work].room; room == nil || room(t) <= mostBytes {
				all = append(all, row{fmt.Sprintf("%s, %d processes", t.Work, t.Procs), []task{t}})
			}
		}
		return all
	}
}

// word is a copy of nothing.
func word(_ *options, t task) []row {
	t.Work = "copy"
	return []row{{"ping-pong of a word", []task{t}}}
}

func copies(o *options, t task) (all []row) {
	for _, t.Bytes = range o.sizes {
		t.Work, t.Piece = "copy", 0
		all = append(all, row{fmt.Sprintf("copy of %d bytes", t.Bytes), []task{t}})
		for _, t.Work = range []string{"pieces", "pieces, dirty"} {
			r := row{name: fmt.Sprintf("copy of %d bytes in %s", t.Bytes, t.Work)}
			for t.Piece = leastPiece; t.Piece <= mostPiece && t.Piece < t.Bytes; t.Piece *= 2 {
				if t.Bytes%t.Piece == 0 {
					r.tasks = append(r.tasks, t)
				}
			}
			if r.tasks != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// Pieces in which copies go.
const (
	leastPiece = 4 << 10
	mostPiece  = 256 << 10
)

// longs are rows of tasks with all pieces that there is room for.
func longs(o *options, t task) (all []row) {
	t.Bytes = o.bulk
	for _, t.Work = range []string{"alltoall", "bcast", "allreduce, parts", "allreduce, chain"} {
		r := row{name: fmt.Sprintf("%s of %d KB, %d processes", t.Work, t.Bytes>>10, t.Procs)}
		for _, t.Piece = range o.pieces {
			if t.Bytes%t.Piece == 0 && t.Piece%(8*t.Procs) == 0 && works[t.Work].room(t) <= mostBytes {
				r.tasks = append(r.tasks, t)
			}
		}
		if r.tasks != nil {
			all = append(all, r)
		}
	}
	if kernelCopies() && t.Bytes%(8*t.Procs) == 0 {
		t.Work, t.Piece = "alltoall, kernel", 0
		all = append(all, row{fmt.Sprintf("alltoall by the kernel of %d KB, %d processes", t.Bytes>>10, t.Procs), []task{t}})
	}
	return all
}
