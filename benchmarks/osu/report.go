package main

import (
	"fmt"
	"io"
)

// Widths of the first column, the others, and that of the repetitions.
const (
	first = 10
	width = 18
	count = 12
)

// version is that of the tests whose columns these are.
const version = " v5.9 on gorun"

// heads returns the heads of the columns after the size.
func (o *options) heads() []string {
	switch t := o.t; {
	case t.run != nil && t.name == "osu_mbw_mr" && !o.rate:
		return t.heads[:1]
	case t.run != nil:
		return t.heads
	case t.do != nil && o.full:
		return []string{"Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations"}
	case t.do != nil:
		return []string{"Avg Latency(us)"}
	case o.full:
		return []string{"Overall(us)", "Compute(us)", "Coll. Init(us)", "MPI_Test(us)", "MPI_Wait(us)", "Pure Comm.(us)", "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)"}
	}
	return []string{"Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)"}
}

// header prints what comes before the lines.
func (o *options) header(w io.Writer, pairs int) error {
	text := "# OSU MPI " + o.t.title + version + "\n"
	if o.t.run == nil {
		text = "\n" + text
	}
	if o.t.name == "osu_mbw_mr" {
		text += fmt.Sprintf("# [ pairs: %d ] [ window size: %d ]\n", pairs, o.window)
	}
	if o.t.begin != nil {
		text += "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
	}
	for i, head := range o.heads() {
		switch {
		case i == 0 && o.t.sized():
			text += fmt.Sprintf("%-*s%*s", first, "# Size", width, head)
		case i == 0:
			text += "# " + head
		case head == "Iterations":
			text += fmt.Sprintf("%*s", count, head)
		default:
			text += fmt.Sprintf("%*s", width, head)
		}
	}
	if o.check {
		text += fmt.Sprintf("%*s", width, "Validation")
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// line prints what was measured of a size, and whether the data were right.
func (o *options) line(w io.Writer, size, reps int, columns []float64, wrong int) error {
	heads := o.heads()
	if o.t.begin != nil && !o.full { // overall, compute, pure, overlap
		columns = []float64{columns[0], columns[1], columns[5], columns[8]}
	}
	text := ""
	if o.t.sized() {
		text = fmt.Sprintf("%-*d", first, size)
	}
	for i, head := range heads {
		switch {
		case head == "Iterations":
			text += fmt.Sprintf("%*d", count, reps)
		case i == 0 && !o.t.sized():
			text += fmt.Sprintf("%*.2f", len("# "+head), columns[0])
		default:
			text += fmt.Sprintf("%*.2f", width, columns[i])
		}
	}
	if o.check {
		text += fmt.Sprintf("%*s", width, map[bool]string{true: "Pass", false: "Fail"}[wrong == 0])
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
