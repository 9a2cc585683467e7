package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// options are what the command line asks for.
type options struct {
	line      []string // the command line, for the output
	component *component
	tests     []*test
	npmin     int
	multi     int // 0: the worst group of all that run at once; 1: each; -1: one group
	sizes     []int
	chosen    bool // sizes are those of a file
	maxLog    int
	reps      int
	volume    int // bytes of a sample
	dynamic   bool
	seconds   float64
	memory    float64 // bytes
	columns   int     // of -map; 0: none
	rows      int
	sync      bool
	shift     bool
}

// parse reads the command line, which begins with the program.
func parse(line []string) (*options, error) {
	o := &options{line: line, npmin: 2, multi: -1, reps: 1000, volume: 40 << 20, dynamic: true, seconds: 10, memory: 1 << 30, sync: true}
	args := line[1:]
	o.component = components[0]
	if c := find(filepath.Base(line[0])); c != nil {
		o.component = c
	}
	if len(args) > 0 && find(args[0]) != nil {
		o.component, args = find(args[0]), args[1:]
	}
	p := &parser{o: o, minLog: 0, maxLog: 22}
	if err := p.all(args); err != nil {
		return nil, err
	}
	return o, p.finish()
}

// parser is what is known while the command line is read.
type parser struct {
	o                        *options
	minLog, maxLog           int
	names, included, without []string
	into                     *[]string // where names go
}

// all reads all arguments. A name after -include or -exclude belongs to that until another option comes.
func (p *parser) all(args []string) error {
	p.into = &p.names
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-h" || arg == "-help":
			fmt.Fprintln(os.Stderr, "see the comment of benchmarks/imb: go doc ./benchmarks/imb")
			return flag.ErrHelp
		case arg == "-include":
			p.into = &p.included
		case arg == "-exclude":
			p.into = &p.without
		case strings.HasPrefix(arg, "-"):
			p.into = &p.names
			if i+1 == len(args) {
				return fmt.Errorf("%s needs a value", arg)
			}
			i++
			if err := p.option(arg[1:], args[i]); err != nil {
				return fmt.Errorf("%s %s: %w", arg, args[i], err)
			}
		default:
			*p.into = append(*p.into, strings.Split(arg, ",")...)
		}
	}
	return nil
}

// option reads one option with a value.
func (p *parser) option(name, value string) (err error) {
	o := p.o
	switch name {
	case "npmin":
		o.npmin, err = number(value, 1, math.MaxInt32)
	case "multi":
		o.multi, err = number(value, 0, 1)
	case "msglog":
		err = p.logs(value)
	case "msglen":
		err = o.lengths(value)
	case "iter":
		err = o.iterations(value)
	case "iter_policy":
		o.dynamic, err = choice(value, "dynamic", "off")
	case "time":
		o.seconds, err = positive(value)
	case "mem":
		o.memory, err = positive(value)
		o.memory *= 1 << 30
	case "map":
		var rest string
		if n, _ := fmt.Sscanf(value, "%dx%d%s", &o.columns, &o.rows, &rest); n != 2 || o.columns < 1 || o.rows < 1 {
			err = fmt.Errorf("it is two numbers with an x between, such as 2x4")
		}
	case "sync":
		o.sync, err = choice(value, "on", "off")
	case "root_shift":
		o.shift, err = choice(value, "on", "off")
	case "input":
		var text []byte
		text, err = os.ReadFile(value)
		p.names = append(p.names, fields(string(text))...)
	default:
		err = fmt.Errorf("there is no such option here; go doc ./benchmarks/imb lists them")
	}
	return err
}

// fields returns the words of a text, without what follows a # in a line.
func fields(text string) (all []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		all = append(all, strings.Fields(line)...)
	}
	return all
}

func number(s string, least, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("it is a number from %d to %d", least, most)
	}
	return n, nil
}

func positive(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x > 0) || math.IsInf(x, 1) {
		return 0, fmt.Errorf("it is a number above 0")
	}
	return x, nil
}

// choice reports whether s is the first of two words.
func choice(s, yes, no string) (bool, error) {
	if s != yes && s != no {
		return false, fmt.Errorf("it is %s or %s", yes, no)
	}
	return s == yes, nil
}

// mostLog bounds sizes: a test of all ranks with each other has a buffer for each.
const mostLog = 30

func (p *parser) logs(value string) (err error) {
	low, high, both := strings.Cut(value, ":")
	if !both {
		low, high = "0", value
	}
	if p.minLog, err = number(low, 0, mostLog); err == nil {
		p.maxLog, err = number(high, p.minLog, mostLog)
	}
	return err
}

func (o *options) lengths(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, word := range fields(string(text)) {
		n, err := number(word, 0, 1<<mostLog)
		if err != nil {
			return err
		}
		o.sizes = append(o.sizes, n)
	}
	o.chosen = true
	return nil
}

func (o *options) iterations(value string) (err error) {
	reps, volume, two := strings.Cut(value, ",")
	if o.reps, err = number(reps, 1, math.MaxInt32); err == nil && two {
		o.volume, err = number(volume, 1, 1<<20)
		o.volume <<= 20
	}
	return err
}

// finish chooses tests and sizes when all options are known.
func (p *parser) finish() (err error) {
	o := p.o
	if !o.chosen {
		o.maxLog = p.maxLog
		o.sizes = []int{0}
		for l := p.minLog; l <= p.maxLog; l++ {
			o.sizes = append(o.sizes, 1<<l)
		}
	}
	if len(o.sizes) == 0 {
		return fmt.Errorf("-msglen: the file has no sizes")
	}
	if o.tests, err = o.component.chosen(p.names, p.included, p.without); err == nil && len(o.tests) == 0 {
		err = fmt.Errorf("no test is left")
	}
	return err
}
