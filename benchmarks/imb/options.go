package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	volume    int     // bytes of a sample
	policy    string  // of -iter_policy
	limit     float64 // seconds of a sample
	memory    float64 // bytes
	columns   int     // of -map; 0: none
	rows      int
	sync      bool
	shift     bool
	messages  bool // the barrier is one of messages
	zero      bool // there is a size of 0 bytes
	warm      bool // what is timed has run before
	checked   bool
	window    int
	cache     int // bytes that buffers are not to stay in; 0: none
	cacheLine int
	list      bool
}

// parse reads the command line, which begins with the program.
func parse(line []string) (*options, error) {
	o := &options{line: line, npmin: 2, multi: -1, reps: 1000, volume: 40 << 20, policy: "dynamic", limit: 10, memory: 1 << 30,
		sync: true, zero: true, warm: true, window: 256, cacheLine: 128}
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
		case arg == "-list":
			p.o.list = true
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
	if to := map[string]*bool{"sync": &o.sync, "root_shift": &o.shift, "imb_barrier": &o.messages, "zero_size": &o.zero, "warm_up": &o.warm, "check": &o.checked}[name]; to != nil {
		*to, err = on(value)
		return err
	}
	switch name {
	case "npmin":
		o.npmin, err = inRange(value, 1, math.MaxInt32)
	case "multi":
		o.multi, err = inRange(value, 0, 1)
	case "msglog":
		err = p.logs(value)
	case "msglen":
		err = o.lengths(value)
	case "iter":
		err = o.iterations(value)
	case "iter_policy":
		o.policy, err = value, oneOf(value, "dynamic", "multiple_np", "auto", "off")
	case "time":
		o.limit, err = positive(value)
	case "mem":
		o.memory, err = positive(value)
		o.memory *= 1 << 30
	case "map":
		var rest string
		if n, _ := fmt.Sscanf(value, "%dx%d%s", &o.columns, &o.rows, &rest); n != 2 || o.columns < 1 || o.rows < 1 {
			err = fmt.Errorf("it is two numbers with an x between, such as 2x4")
		}
	case "window_size":
		o.window, err = inRange(value, 1, 1<<16)
	case "off_cache":
		err = o.offCache(value)
	case "thread_level": // the program works with each
		err = oneOf(value, "single", "funneled", "serialized", "multiple", "nompinit")
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

func inRange(s string, least, most int) (int, error) {
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

// on reads whether something is on.
func on(s string) (bool, error) {
	s = strings.ToLower(s)
	yes := slices.Contains([]string{"on", "yes", "true", "enable", "1"}, s)
	if !yes && !slices.Contains([]string{"off", "no", "false", "disable", "0"}, s) {
		return false, fmt.Errorf("it is on or off")
	}
	return yes, nil
}

func oneOf(s string, words ...string) error {
	if !slices.Contains(words, s) {
		return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
	}
	return nil
}

// offCache reads -off_cache: megabytes, or -1, and the bytes of a line.
func (o *options) offCache(value string) (err error) {
	size, line, both := strings.Cut(value, ",")
	megabytes := 4.0
	if size != "-1" {
		if megabytes, err = positive(size); err == nil && megabytes > 1<<10 {
			err = fmt.Errorf("it is %d megabytes at most", 1<<10)
		}
	}
	if err == nil && both {
		o.cacheLine, err = inRange(line, 1, 1<<16)
	}
	o.cache = int(megabytes * (1 << 20))
	return err
}

// mostLog bounds sizes: a test of all ranks with each other has a buffer for each.
const mostLog = 30

func (p *parser) logs(value string) (err error) {
	low, high, both := strings.Cut(value, ":")
	if !both {
		low, high = "0", value
	}
	if p.minLog, err = inRange(low, 0, mostLog); err == nil {
		p.maxLog, err = inRange(high, p.minLog, mostLog)
	}
	return err
}

func (o *options) lengths(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, word := range fields(string(text)) {
		number, unit := word, 1
		if n := len(word) - 1; strings.ContainsAny(word[n:], "kK") {
			number, unit = word[:n], 1<<10
		} else if strings.ContainsAny(word[n:], "mM") {
			number, unit = word[:n], 1<<20
		}
		n, err := inRange(number, 0, 1<<mostLog/unit)
		if err != nil {
			return err
		}
		o.sizes = append(o.sizes, n*unit)
	}
	o.chosen = true
	return nil
}

func (o *options) iterations(value string) (err error) {
	parts := strings.Split(value, ",")
	if len(parts) > 3 {
		return fmt.Errorf("it is three numbers at most")
	}
	if o.reps, err = inRange(parts[0], 1, math.MaxInt32); err == nil && len(parts) > 1 {
		o.volume, err = inRange(parts[1], 1, 1<<20)
		o.volume <<= 20
	}
	if err == nil && len(parts) > 2 { // of tests that are not here
		_, err = inRange(parts[2], 1, math.MaxInt32)
	}
	return err
}

// finish chooses tests and sizes when all options are known.
func (p *parser) finish() (err error) {
	o := p.o
	o.maxLog = p.maxLog
	if !o.chosen {
		if o.zero {
			o.sizes = []int{0}
		}
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
