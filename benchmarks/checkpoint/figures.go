package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// figures holds everything that was measured: seconds, or what its quantity's
// unit says.
type figures struct {
	values map[job]map[string][]float64
	jobs   []job
}

func newFigures() *figures { return &figures{values: make(map[job]map[string][]float64)} }

func (f *figures) add(j job, what string, took time.Duration) { f.addValue(j, what, took.Seconds()) }

func (f *figures) addValue(j job, what string, v float64) {
	if f.values[j] == nil {
		f.values[j] = make(map[string][]float64)
		f.jobs = append(f.jobs, j)
	}
	f.values[j][what] = append(f.values[j][what], v)
}

// order is the order in which quantities are printed.
var order = []string{"points", "first gate", "gate", "first pause", "pause", "pause tracked", "pause of rank 0", "seen", "copy warm", "copy fresh",
	"first commit", "commit", "commit writing", "commit incremental", "raw write", "restart", "beside data", "growth", "full", "incremental"}

// isBytes tells which quantities are no times.
var isBytes = map[string]bool{"beside data": true, "growth": true, "full": true, "incremental": true}

// print writes the table of one case and returns how many targets were missed.
func (f *figures) print(w io.Writer, j job, cr string) (missed int) {
	fmt.Fprintf(w, "%v\n", j)
	for _, what := range append(slices.Clip(order), f.others(j)...) {
		v := f.values[j][what]
		if len(v) == 0 {
			continue
		}
		scale, unit := 1e3, "ms"
		if isBytes[what] {
			scale, unit = 1.0/(1<<20), "MB"
		}
		median := stats.Median(v)
		fmt.Fprintf(w, "  %-19s %9.2f %s  (%.2f .. %.2f)", what, median*scale, unit, scale*stats.Quantile(v, 0.25), scale*stats.Quantile(v, 0.75))
		switch what {
		case "gate":
			if cr == "native" { // nothing is copied meanwhile
				break
			}
			fallthrough
		case "copy warm", "copy fresh", "commit", "raw write":
			fmt.Fprintf(w, "  %6.2f GB/s", float64(j.bytes())/median/1e9)
		}
		fmt.Fprintln(w)
	}
	if cr == "native" {
		return f.nativeTargets(w, j)
	}
	if len(f.values[j]["gate"]) > 0 {
		fmt.Fprintf(w, "  gate / copy warm %.2f, gate / copy fresh %.2f\n", f.ratio(j, "gate", "copy warm"), f.ratio(j, "gate", "copy fresh"))
	}
	fmt.Fprintf(w, "  commit at %.0f %% of the raw write's speed\n", 100*f.ratio(j, "raw write", "commit"))
	return f.targets(w, j)
}

// others are the quantities that the command line names, such as restarts over a transport.
func (f *figures) others(j job) []string {
	var list []string
	for what := range f.values[j] {
		if strings.HasPrefix(what, "restart ") {
			list = append(list, what)
		}
	}
	slices.Sort(list)
	return list
}

// ratio is the median of the ratios of two quantities in the same round.
func (f *figures) ratio(j job, a, b string) float64 {
	return stats.Median(stats.Ratios(f.values[j][a], f.values[j][b]))
}

// median of one quantity.
func (f *figures) median(j job, what string) float64 { return stats.Median(f.values[j][what]) }

// verdicts prints what the project asks of itself and counts what is missed.
type verdicts struct {
	w      io.Writer
	missed int
}

func (v *verdicts) on(ok bool, format string, args ...any) {
	word := "reached"
	if !ok {
		word = "MISSED"
		v.missed++
	}
	fmt.Fprintf(v.w, "  target: "+format+": %s\n", append(args, word)...)
}

// targets holds the figures against what the project asks of itself.
func (f *figures) targets(w io.Writer, j job) (missed int) {
	v := &verdicts{w: w}
	switch j {
	case job{64, 1}:
		v.on(f.median(j, "commit") <= 0.5, "request to commit <= 0.5 s")
	case job{4, 256}:
		v.on(f.ratio(j, "gate", "copy warm") <= 1.3, "gate closed <= 1.3 times the copy in memory")
		v.on(f.ratio(j, "raw write", "commit") >= 0.8, "commit >= 80 %% of the raw write's speed")
	}
	return v.missed
}

// nativeTargets does it for images of whole processes.
func (f *figures) nativeTargets(w io.Writer, j job) (missed int) {
	v := &verdicts{w: w}
	gb := float64(j.mb) / 1024
	fmt.Fprintf(w, "  commit at %.0f %% of the raw write's speed\n", 100*f.ratio(j, "raw write", "commit"))
	v.on(f.median(j, "pause") <= 0.004+0.030*gb, "pause of a rank <= 4 ms + 30 ms per GB = %.1f ms", 4+30*gb)
	v.on(f.median(j, "beside data") <= 4<<20, "image <= data + 4 MB a rank")
	if len(f.values[j]["restart"]) > 0 {
		limit := 0.050 + float64(j.bytes())/1e9
		if j.ranks >= 64 {
			limit = 5
		}
		v.on(f.median(j, "restart") <= limit, "kill to first message <= %.0f ms", 1e3*limit)
	}
	switch {
	case j == job{4, 256}:
		v.on(f.ratio(j, "raw write", "commit") >= 0.7, "commit >= 70 %% of the raw write's speed")
	case j.ranks >= 64:
		v.on(f.median(j, "gate") <= 0.5, "gate closed <= 0.5 s")
		v.on(f.median(j, "commit") <= 5, "request to commit <= 5 s")
	case j.ranks == 1 && len(f.values[j]["incremental"]) == 0:
		v.on(false, "incremental images: none were taken")
	case j.ranks == 1:
		part := f.ratio(j, "incremental", "full")
		fmt.Fprintf(w, "  incremental image with %d %% of the pages rewritten: %.1f %% of a full one\n", dirtied/10, 100*part)
		if j.mb >= 1024 {
			v.on(part <= 0.08, "incremental image <= 8 %% of the full one")
		}
	}
	if growth := f.values[j]["growth"]; len(growth) > 0 {
		part := stats.Median(growth) / float64(j.bytes())
		fmt.Fprintf(w, "  memory grows by %.0f %% of the data while %d MB/s are rewritten\n", 100*part, dirtyRate)
		v.on(part < 1, "never twice the memory")
	}
	return v.missed
}

// csv returns one line per case and time, for benchmarks/plot.
func (f *figures) csv() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "case,what,seconds,low,high")
	for _, j := range f.jobs {
		for _, what := range order {
			if v := f.values[j][what]; len(v) > 0 && !isBytes[what] {
				fmt.Fprintf(&b, "%v,%s,%.6g,%.6g,%.6g\n", j, what, stats.Median(v), stats.Quantile(v, 0.25), stats.Quantile(v, 0.75))
			}
		}
	}
	return b.Bytes()
}
