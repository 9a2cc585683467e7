package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// results holds the medians of all rounds.
type results struct {
	names []string // contenders, ours first
	keys  []key    // in the order they were measured
	times map[key]map[string][]float64
}

type key struct {
	mode  string
	bytes int
}

// targets are the highest ratios of our time per message to the best peer's
// that the project allows itself over TCP; five times the messages per second
// is a fifth of the time.
var targets = map[key]float64{
	{"pingpong", 8}:        0.95,
	{"pingpong", 64 << 10}: 0.75,
	{"pingpong", 1 << 20}:  1.0,
	{"window", 8}:          0.2,
}

func newResults(all []*contender) *results {
	r := &results{times: make(map[key]map[string][]float64)}
	for _, c := range all {
		r.names = append(r.names, c.name)
	}
	return r
}

func (r *results) add(name string, lines []bench.Line) {
	for _, l := range lines {
		k := key{l.Mode, l.Bytes}
		if r.times[k] == nil {
			r.times[k] = make(map[string][]float64)
			r.keys = append(r.keys, k)
		}
		r.times[k][name] = append(r.times[k][name], l.Seconds)
	}
}

// remove forgets a contender, whose rounds are not complete.
func (r *results) remove(name string) {
	r.names = slices.DeleteFunc(r.names, func(n string) bool { return n == name })
}

// best returns the peer with the smallest median, "" if there is none.
func (r *results) best(k key) string {
	best := ""
	for _, name := range r.names[1:] {
		if best == "" || stats.Median(r.times[k][name]) < stats.Median(r.times[k][best]) {
			best = name
		}
	}
	return best
}

// print writes the table and returns how many targets were missed.
func (r *results) print(w io.Writer) (missed int) {
	fmt.Fprintf(w, "%-9s %9s", "mode", "bytes")
	for _, name := range r.names {
		fmt.Fprintf(w, " %18s", name)
	}
	fmt.Fprintf(w, "   %s\n", "gorun / best other, 95 % interval")
	for _, k := range r.keys {
		fmt.Fprintf(w, "%-9s %9d", k.mode, k.bytes)
		for _, name := range r.names {
			fmt.Fprintf(w, " %11.3f us %3.0f%%", stats.Median(r.times[k][name])*1e6, 100*stats.Spread(r.times[k][name]))
		}
		missed += r.compare(w, k)
	}
	fmt.Fprintf(w, "Median time per message (one way), and the spread of the rounds: distance of the quartiles.\n")
	r.rates(w)
	return missed
}

// compare ends a row with the ratio to the best peer; it returns 1 if a target
// was missed.
func (r *results) compare(w io.Writer, k key) (missed int) {
	best := r.best(k)
	if best == "" {
		fmt.Fprintln(w, "   -")
		return 0
	}
	ratios := stats.Ratios(r.times[k][r.names[0]], r.times[k][best])
	lo, hi := stats.Interval(ratios)
	median := stats.Median(ratios)
	fmt.Fprintf(w, "   %.3f (%.3f .. %.3f) of %s", median, lo, hi, best)
	if target, ok := targets[k]; ok {
		verdict := "reached"
		if median > target {
			verdict, missed = "MISSED", 1
		}
		fmt.Fprintf(w, ", target %.2f %s", target, verdict)
	}
	fmt.Fprintln(w)
	return missed
}

// rates prints messages per second for the modes in one direction.
func (r *results) rates(w io.Writer) {
	names := map[string]string{"window": "64 under way", "stream": "blocking sends"}
	for _, k := range r.keys {
		if names[k.mode] == "" {
			continue
		}
		fmt.Fprintf(w, "%d B messages/s, %s:", k.bytes, names[k.mode])
		for _, name := range r.names {
			fmt.Fprintf(w, "  %s %.3g M", name, 1e-6/stats.Median(r.times[k][name]))
		}
		if best := r.best(k); best != "" {
			ratios := stats.Ratios(r.times[k][best], r.times[k][r.names[0]])
			lo, hi := stats.Interval(ratios)
			fmt.Fprintf(w, ", %.1f (%.1f .. %.1f) times %s", stats.Median(ratios), lo, hi, best)
		}
		fmt.Fprintln(w)
	}
}

// csv returns one line per contender and size, for benchmarks/plot.
func (r *results) csv() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "contender,"+bench.Header)
	for _, name := range r.names {
		for _, k := range r.keys {
			v := r.times[k][name]
			fmt.Fprintf(&b, "%s,%s,%d,%.9g,%.9g,%.9g\n", name, k.mode, k.bytes, stats.Median(v), stats.Quantile(v, 0.25), stats.Quantile(v, 0.75))
		}
	}
	return b.Bytes()
}
