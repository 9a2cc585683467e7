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
	check    bool
	own      bool // a buffer for each message of a window
	root     int
	rotate   bool
}

// buffers returns how many a rank sends from.
func (o *options) buffers() int {
	if o.own && o.t.windows {
		return o.window
	}
	return 1
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
			fmt.Fprintln(os.Stderr, usage)
			return nil, flag.ErrHelp
		}
		if t = find(args[0]); t == nil {
			return nil, fmt.Errorf("there is no test %q, only %s", args[0], strings.Join(names(), " "))
		}
		args = args[1:]
	}
	o := &options{t: t, min: t.min, max: t.max, rate: true, window: 64, skip: -1, memory: 512 << 20}
	f := o.flags()
	if err := f.Parse(apart(args, f)); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no option", f.Arg(0))
	}
	if o.check && !t.sized() {
		return nil, fmt.Errorf("-c: %s moves nothing that could be checked", t.name)
	}
	return o, nil
}

const usage = "see the comment of benchmarks/osu: go doc ./benchmarks/osu"

// flags returns the options, each with its letter and its long name.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet(o.t.name, flag.ContinueOnError)
	f.Usage = func() { fmt.Fprintln(f.Output(), usage) }
	for names, to := range map[[2]string]*bool{{"f", "full"}: &o.full, {"c", "validation"}: &o.check} {
		f.BoolVar(to, names[0], false, usage)
		f.BoolVar(to, names[1], false, usage)
	}
	for names, read := range map[[2]string]func(string) error{
		{"m", "message-size"}: o.sizes, {"i", "iterations"}: atLeast(1, &o.reps), {"x", "warmup"}: atLeast(0, &o.skip),
		{"W", "window-size"}: atLeast(1, &o.window), {"p", "num-pairs"}: atLeast(0, &o.pairs), {"t", "num-test-calls"}: atLeast(0, &o.polls),
		{"M", "mem-limit"}: atLeast(1, &o.memory), {"R", "print-rate"}: o.rates, {"b", "buffer-num"}: o.kind, {"k", "root-rank"}: o.roots,
	} {
		f.Func(names[0], usage, read)
		f.Func(names[1], usage, read)
	}
	return f
}

// atLeast reads a number that is not below least.
func atLeast(least int, to *int) func(string) error {
	return func(s string) (err error) {
		if *to, err = strconv.Atoi(s); err == nil && *to < least {
			err = fmt.Errorf("it is %d or more", least)
		}
		return err
	}
}

// apart returns the arguments with letters apart from each other and from their values, as getopt reads them: -fc is
// -f -c, and -i100 is -i 100.
func apart(args []string, f *flag.FlagSet) (all []string) {
	for _, arg := range args {
		for len(arg) > 2 && arg[0] == '-' && arg[1] != '-' && f.Lookup(arg[1:]) == nil && f.Lookup(arg[1:2]) != nil && arg[2] != '=' {
			all = append(all, arg[:2])
			if _, alone := f.Lookup(arg[1:2]).Value.(interface{ IsBoolFlag() bool }); !alone {
				arg = arg[2:]
				break
			}
			arg = "-" + arg[2:]
		}
		all = append(all, arg)
	}
	return all
}

// rates reads -R.
func (o *options) rates(s string) error {
	if s != "0" && s != "1" {
		return fmt.Errorf("it is 0 or 1")
	}
	o.rate = s == "1"
	return nil
}

// kind reads -b.
func (o *options) kind(s string) error {
	if s != "single" && s != "multiple" {
		return fmt.Errorf("it is single or multiple")
	}
	o.own = s == "multiple"
	return nil
}

// roots reads -k.
func (o *options) roots(s string) (err error) {
	rank, fixed := strings.CutPrefix(s, "fixed:")
	if o.rotate = s == "rotate"; o.rotate {
		return nil
	}
	if o.root, err = strconv.Atoi(rank); !fixed || err != nil || o.root < 0 {
		return fmt.Errorf("it is fixed:RANK or rotate")
	}
	return nil
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
