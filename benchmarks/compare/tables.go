package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// table is one of the report, in text and in HTML.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// print writes the table as text.
func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	tw.Flush()
}

// targetTable says of each target whether it is reached where it was measured.
func targetTable(s samples) (t table, failed int) {
	t = table{Title: "Targets: gorun's time divided by the other's, in the same rounds (messages/s: how many times theirs)",
		Head: []string{"over", "what", "beside", "target", "stretch", "worst", "95 % interval", "at", "reached"}}
	for _, x := range targets {
		all := x.judge(s)
		if len(all) == 0 {
			continue
		}
		worst := slices.MaxFunc(all, func(a, b verdict) int {
			if a.ratio.median < b.ratio.median {
				return -1
			}
			return 1
		})
		good := 0
		for _, v := range all {
			if v.word != missed {
				good++
			}
		}
		failed += len(all) - good
		sign, low, high, beside := "<=", worst.ratio.low, worst.ratio.high, "best"
		if x.messages {
			sign, low, high = ">=", 1/worst.ratio.high, 1/worst.ratio.low
		}
		if x.against != "" {
			beside = x.against
		}
		at := worst.key.test
		if worst.key.bytes > 0 {
			at += " " + size(worst.key.bytes)
		}
		word := worst.word
		if len(all) > 1 {
			word = fmt.Sprintf("%s, %d of %d", word, good, len(all))
		}
		t.Rows = append(t.Rows, []string{x.over, x.what, beside, fmt.Sprintf("%s %g", sign, x.most), fmt.Sprint(x.stretch),
			fmt.Sprintf("%.2f", worst.worth), fmt.Sprintf("%.2f .. %.2f", low, high), fmt.Sprintf("%s (%s)", at, worst.ratio.to), word})
	}
	return t, failed
}

// section is a table of figures.
type section struct {
	title string
	tests []string
	head  []string // of the first columns
}

var sections = []section{
	{"Messages, time one way", []string{"pingpong", "dirty", "column"}, []string{"test", "bytes"}},
	{"Streams of messages", []string{"stream", "window"}, []string{"test", "bytes"}},
	{"Collectives, time of the slowest rank", collectiveTests, []string{"test", "ranks", "bytes"}},
	{"Programs, start to end, and time of an iteration", slices.Concat([]string{"start"}, times()), []string{"test", "ranks"}},
}

// figureTable shows the medians of all contenders with their spread, and the ratios.
func figureTable(s samples, x section, transport string, names []string) table {
	t := table{Title: x.title + ", over " + transport, Head: slices.Concat(x.head, names, []string{"of openmpi", "of the best", "target"})}
	for _, k := range s.keys() {
		if k.transport != transport || !slices.Contains(x.tests, k.test) {
			continue
		}
		var row []string
		for _, column := range x.head {
			row = append(row, map[string]string{"test": k.test, "ranks": strconv.Itoa(k.ranks), "bytes": size(k.bytes)}[column])
		}
		for _, name := range names {
			row = append(row, cell(k, s[k][name].values()))
		}
		for _, against := range []string{"openmpi", ""} {
			text := "-"
			if r := s.compare(k, against); r.to != "" {
				text = fmt.Sprintf("%.2f (%.2f .. %.2f)", r.median, r.low, r.high)
				if against == "" {
					text += " " + r.to
				}
			}
			row = append(row, text)
		}
		row = append(row, wanted(s, k))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// wanted says what the targets ask for at k, and what became of it.
func wanted(s samples, k key) string {
	var all []string
	for _, x := range targets {
		if v, ok := x.at(s, k); ok {
			beside := x.against
			if beside == "" {
				beside = "best"
			}
			all = append(all, fmt.Sprintf("%s %g of %s", v.word, x.most, beside))
		}
	}
	return strings.Join(all, ", ")
}

// cell shows a median and the spread of the rounds: as messages or bytes per
// second where many are under way, else as time.
func cell(k key, v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	median := stats.Median(v)
	text := ""
	switch {
	case strings.HasSuffix(k.test, "slow-down"):
		text = fmt.Sprintf("%.3g x", median)
	case k.test == "window", k.test == "stream" && k.bytes < 1<<10:
		text = scaled(1/median, []string{"/s", " K/s", " M/s", " G/s"})
	case k.test == "stream":
		text = scaled(float64(k.bytes)/median, []string{" B/s", " KB/s", " MB/s", " GB/s"})
	default:
		text = scaled(median*1e9, []string{" ns", " us", " ms", " s"})
	}
	if len(v) > 1 {
		text += fmt.Sprintf(" %.0f%%", 100*stats.Spread(v))
	}
	return text
}

// scaled writes a number with three digits and the unit that fits.
func scaled(x float64, units []string) string {
	i := 0
	for x >= 999.5 && i < len(units)-1 {
		x, i = x/1000, i+1
	}
	digits := 2
	for limit := 9.995; x >= limit && digits > 0; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + units[i]
}

// size writes a number of bytes.
func size(bytes int) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}
