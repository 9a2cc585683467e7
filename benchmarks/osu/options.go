package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// options are what the command line asks for.
type options struct {
	t        *test
	min, max int
	reps     int // 0: as the size demands
	skip     int // -1: as the size demands
	full     bool
	window   int
	rate     bool
	pairs    int // 0: all
	polls    int
	memory   int
}

// parse reads the command line, which begins with the program.
func parse(line []string) (*options, error) {
	args := line[1:]
	t := find(filepath.Base(line[0]))
	if t == nil {
		if len(args) == 0 {
			return nil, fmt.Errorf("name a test: %s", strings.Join(names(), " "))
		}
		if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
			fmt.Fprintln(os.Stderr, "see the comment of benchmarks/osu: go doc ./benchmarks/osu")
			return nil, flag.ErrHelp
		}
		if t = find(args[0]); t == nil {
			return nil, fmt.Errorf("there is no test %q, only %s", args[0], strings.Join(names(), " "))
		}
		args = args[1:]
	}
	o := &options{t: t, min: t.min, max: t.max, skip: -1}
	f := flag.NewFlagSet(t.name, flag.ContinueOnError)
	f.Usage = func() { fmt.Fprintln(f.Output(), "see the comment of benchmarks/osu: go doc ./benchmarks/osu") }
	rate := 1
	f.Func("m", "sizes: `[MIN:]MAX` bytes", o.sizes)
	for _, names := range [][2]string{{"i", "iterations"}, {"x", "warmup"}, {"W", "window-size"}, {"p", "pairs"}, {"t", "num-test-calls"}, {"M", "mem-limit"}, {"R", "print-rate"}} {
		to := map[string]*int{"i": &o.reps, "x": &o.skip, "W": &o.window, "p": &o.pairs, "t": &o.polls, "M": &o.memory, "R": &rate}[names[0]]
		from := map[string]int{"i": 0, "x": -1, "W": 64, "p": 0, "t": 0, "M": 512 << 20, "R": 1}[names[0]]
		for _, name := range names {
			f.IntVar(to, name, from, "see the comment of benchmarks/osu")
		}
	}
	f.BoolVar(&o.full, "f", false, "all columns")
	f.BoolVar(&o.full, "full", false, "all columns")
	f.Func("message-size", "as -m", o.sizes)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.rate = rate != 0
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no option", f.Arg(0))
	}
	if o.reps < 0 || o.skip < -1 || o.window < 1 || o.pairs < 0 || o.polls < 0 || o.memory < 1 || rate < 0 || rate > 1 {
		return nil, fmt.Errorf("a number is out of range; see go doc ./benchmarks/osu")
	}
	return o, nil
}

// sizes reads -m.
func (o *options) sizes(s string) error {
	low, high, both := strings.Cut(s, ":")
	if !both {
		low, high = strconv.Itoa(o.t.min), s
	}
	if low == "" {
		low = strconv.Itoa(o.t.min)
	}
	if high == "" {
		high = strconv.Itoa(o.t.max)
	}
	var err1, err2 error
	o.min, err1 = strconv.Atoi(low)
	o.max, err2 = strconv.Atoi(high)
	if err1 != nil || err2 != nil || o.min < 0 || o.max < o.min {
		return fmt.Errorf("it is MAX, MIN: or MIN:MAX, in bytes")
	}
	return nil
}

// all returns the sizes: 0 if that is the least one, then doubled. A test without sizes has one, 0.
func (o *options) all() (sizes []int) {
	if !o.t.sized() {
		return []int{0}
	}
	for size := o.min; size <= o.max; size = max(1, 2*size) {
		if size%o.t.unit == 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// large is the size from which fewer repetitions are enough.
const large = 8192

// repetitions returns how many of a size count, and how many come before.
func (o *options) repetitions(size int) (reps, skip int) {
	at := 0
	if size > large {
		at = 1
	}
	reps, skip = o.reps, o.skip
	if reps == 0 {
		reps = o.t.reps[at]
	}
	if skip < 0 {
		skip = o.t.skip[at]
	}
	return reps, skip
}
