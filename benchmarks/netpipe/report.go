package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// report prints measurements as they come and writes NetPIPE's file beside.
type report struct {
	o    *options
	w    io.Writer
	file *os.File
	pipe *bufio.Writer // into file; nil: none
}

func newReport(o *options, w io.Writer) (*report, error) {
	r := &report{o: o, w: w}
	if o.out != "" {
		var err error
		if r.file, err = os.Create(o.out); err != nil {
			return nil, err
		}
		r.pipe = bufio.NewWriter(r.file)
	}
	switch {
	case o.csv:
		fmt.Fprintln(w, "mode,bytes,seconds,low,high")
	case o.mode == "rate":
		fmt.Fprintf(w, "%-10s %10s %14s %8s\n", "mode", "bytes", "messages/s", "spread")
	default:
		fmt.Fprintf(w, "%10s %14s %8s %12s %12s\n", "bytes", "us one way", "spread", "Mbit/s", "repetitions")
	}
	return r, nil
}

// add prints one measurement. The spread is the distance of the quartiles
// relative to the median.
func (r *report) add(m measurement) {
	name := m.kind.name
	if r.o.dirty {
		name += "-dirty"
	}
	switch {
	case r.o.csv:
		fmt.Fprintf(r.w, "%s,%d,%.9g,%.9g,%.9g\n", name, m.size, m.seconds(), stats.Quantile(m.times, 0.25), stats.Quantile(m.times, 0.75))
	case r.o.mode == "rate":
		if m.kind.name == stream.name {
			name = "blocking"
		}
		fmt.Fprintf(r.w, "%-10s %10d %14.0f %7.1f%%\n", name, m.size, 1/m.seconds(), 100*stats.Spread(m.times))
	default:
		fmt.Fprintf(r.w, "%10d %14.3f %7.1f%% %12.2f %12d\n", m.size, m.seconds()*1e6, 100*stats.Spread(m.times), m.mbps(), m.count*len(m.times))
	}
	if r.pipe != nil {
		fmt.Fprintf(r.pipe, "%8d %f %12.8f\n", m.size, m.mbps(), m.seconds())
	}
}

// close finishes NetPIPE's file.
func (r *report) close() error {
	if r.pipe == nil {
		return nil
	}
	return errors.Join(r.pipe.Flush(), r.file.Close())
}
