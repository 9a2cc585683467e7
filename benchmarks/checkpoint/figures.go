package main

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// figures holds all times, in seconds.
type figures struct {
	times map[job]map[string][]float64
	jobs  []job
}

func newFigures() *figures { return &figures{times: make(map[job]map[string][]float64)} }

func (f *figures) add(j job, what string, took time.Duration) {
	if f.times[j] == nil {
		f.times[j] = make(map[string][]float64)
		f.jobs = append(f.jobs, j)
	}
	f.times[j][what] = append(f.times[j][what], took.Seconds())
}

// order is the order in which quantities are printed.
var order = []string{"points", "first gate", "gate", "first pause", "pause", "copy warm", "copy fresh",
	"first commit", "commit", "raw write", "restart"}

// print writes the table of one case and returns how many targets were missed.
func (f *figures) print(w io.Writer, j job) (missed int) {
	fmt.Fprintf(w, "%v\n", j)
	for _, what := range order {
		v := f.times[j][what]
		if len(v) == 0 {
			continue
		}
		median := stats.Median(v)
		fmt.Fprintf(w, "  %-12s %9.2f ms  (%.2f .. %.2f)", what, median*1e3, 1e3*stats.Quantile(v, 0.25), 1e3*stats.Quantile(v, 0.75))
		switch what {
		case "gate", "copy warm", "copy fresh", "commit", "raw write":
			fmt.Fprintf(w, "  %6.2f GB/s", float64(j.bytes())/median/1e9)
		}
		fmt.Fprintln(w)
	}
	if len(f.times[j]["gate"]) > 0 {
		fmt.Fprintf(w, "  gate / copy warm %.2f, gate / copy fresh %.2f\n", f.ratio(j, "gate", "copy warm"), f.ratio(j, "gate", "copy fresh"))
	}
	fmt.Fprintf(w, "  commit at %.0f %% of the raw write's speed\n", 100*f.ratio(j, "raw write", "commit"))
	return f.targets(w, j)
}

// ratio is the median of the ratios of two quantities in the same round.
func (f *figures) ratio(j job, a, b string) float64 {
	return stats.Median(stats.Ratios(f.times[j][a], f.times[j][b]))
}

// targets holds the figures against what the project asks of itself.
func (f *figures) targets(w io.Writer, j job) (missed int) {
	verdict := func(ok bool, format string, args ...any) {
		word := "reached"
		if !ok {
			word = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "  target: "+format+": %s\n", append(args, word)...)
	}
	switch j {
	case job{64, 1}:
		verdict(stats.Median(f.times[j]["commit"]) <= 0.5, "request to commit <= 0.5 s")
	case job{4, 256}:
		verdict(f.ratio(j, "gate", "copy warm") <= 1.3, "gate closed <= 1.3 times the copy in memory")
		verdict(f.ratio(j, "raw write", "commit") >= 0.8, "commit >= 80 %% of the raw write's speed")
	}
	return missed
}

// csv returns one line per case and quantity, for benchmarks/plot.
func (f *figures) csv() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "case,what,seconds,low,high")
	for _, j := range f.jobs {
		for _, what := range order {
			if v := f.times[j][what]; len(v) > 0 {
				fmt.Fprintf(&b, "%v,%s,%.6g,%.6g,%.6g\n", j, what, stats.Median(v), stats.Quantile(v, 0.25), stats.Quantile(v, 0.75))
			}
		}
	}
	return b.Bytes()
}
