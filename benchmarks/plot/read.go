package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// kind says what the numbers of a file mean.
type kind int

const (
	messages kind = 1 + iota // x bytes, y seconds
	times                    // group is the case, y seconds
	byRanks                  // x ranks, y anything
	scaling                  // x ranks, y seconds
)

// point is one number with the range it lies in.
type point struct {
	series       string // its line in the legend
	what         string // mode or quantity
	x            float64
	y, low, high float64
}

// data is the content of a file.
type data struct {
	kind   kind
	points []point
}

// only keeps the points of one quantity.
func (d data) only(what string) data {
	kept := data{kind: d.kind}
	for _, p := range d.points {
		if p.what == what {
			kept.points = append(kept.points, p)
		}
	}
	return kept
}

func readFile(name string) (data, error) {
	f, err := os.Open(name)
	if err != nil {
		return data{}, err
	}
	defer f.Close()
	base := filepath.Base(name)
	return read(f, strings.TrimSuffix(base, filepath.Ext(base)))
}

// read reads a file; name is for series that have none of their own.
func read(r io.Reader, name string) (data, error) {
	in := bufio.NewReader(r)
	first, err := in.Peek(16)
	if err != nil && err != io.EOF {
		return data{}, err
	}
	if head := strings.TrimLeft(string(first), " \t"); head == "" || head[0] >= '0' && head[0] <= '9' {
		return readNetPIPE(in, name)
	}
	records, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return data{}, err
	}
	if len(records) == 0 {
		return data{}, fmt.Errorf("empty")
	}
	layouts := map[string]layout{
		"contender,mode,bytes,seconds,low,high": {kind: messages, series: 0, what: 1, x: 2, y: 3, low: 4, high: 5},
		"contender,mode,ranks,seconds,low,high": {kind: scaling, series: 0, what: 1, x: 2, y: 3, low: 4, high: 5},
		"mode,bytes,seconds,low,high":           {kind: messages, series: -1, what: 0, x: 1, y: 2, low: 3, high: 4},
		"case,what,seconds,low,high":            {kind: times, series: 0, what: 1, x: -1, y: 2, low: 3, high: 4},
	}
	columns := strings.Join(records[0], ",")
	if columns == "schedule,ranks,rounds,messages,bytes,queue,seconds" {
		return readByRanks(records, name)
	}
	l, ok := layouts[columns]
	if !ok {
		return data{}, fmt.Errorf("columns %q are not those of a benchmark", records[0])
	}
	return l.read(records[1:], name)
}

// readByRanks reads a table with a schedule, a number of ranks and quantities.
func readByRanks(records [][]string, name string) (data, error) {
	all := data{kind: byRanks}
	for i, what := range records[0] {
		if i < 2 {
			continue
		}
		l := layout{kind: byRanks, series: 0, what: -1, x: 1, y: i, low: i, high: i}
		d, err := l.read(records[1:], name)
		if err != nil {
			return data{}, err
		}
		for k := range d.points {
			d.points[k].what = what
		}
		all.points = append(all.points, d.points...)
	}
	return all, nil
}

// layout says which column holds what; -1: none does.
type layout struct {
	kind                          kind
	series, what, x, y, low, high int
}

func (l layout) read(records [][]string, name string) (data, error) {
	d := data{kind: l.kind}
	for i, r := range records {
		p := point{series: name}
		if l.what >= 0 {
			p.what = r[l.what]
		}
		if l.series >= 0 {
			p.series = r[l.series]
		}
		for to, at := range map[*float64]int{&p.x: l.x, &p.y: l.y, &p.low: l.low, &p.high: l.high} {
			if at < 0 {
				continue
			}
			var err error
			if *to, err = strconv.ParseFloat(r[at], 64); err != nil {
				return data{}, fmt.Errorf("line %d: %w", i+2, err)
			}
		}
		d.points = append(d.points, p)
	}
	return d, nil
}

// readNetPIPE reads lines of size in bytes, Mbit/s and seconds.
func readNetPIPE(r io.Reader, name string) (data, error) {
	d := data{kind: messages}
	s := bufio.NewScanner(r)
	for line := 1; s.Scan(); line++ {
		f := strings.Fields(s.Text())
		if len(f) == 0 {
			continue
		}
		if len(f) < 3 {
			return data{}, fmt.Errorf("line %d: %d columns, want 3", line, len(f))
		}
		p := point{series: name, what: "pingpong"}
		var err error
		if p.x, err = strconv.ParseFloat(f[0], 64); err == nil {
			p.y, err = strconv.ParseFloat(f[2], 64)
		}
		if err != nil {
			return data{}, fmt.Errorf("line %d: %w", line, err)
		}
		p.low, p.high = p.y, p.y
		d.points = append(d.points, p)
	}
	return d, s.Err()
}
