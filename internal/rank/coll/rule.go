package coll

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rule is an algorithm and when it is used.
type Rule struct {
	Algorithm          Algorithm
	Segment            int // bytes that are sent at once; 0: all
	MinRanks, MaxRanks int
	MinBytes, MaxBytes int
	Crowded, Roomy     bool // only then
	OneNode, Nodes     bool // only then
}

const noLimit = math.MaxInt

func (r *Rule) fits(s Shape) bool {
	return s.Ranks >= r.MinRanks && s.Ranks <= r.MaxRanks &&
		!(r.Crowded && !s.Crowded) && !(r.Roomy && s.Crowded) &&
		!(r.OneNode && s.Nodes > 1) && !(r.Nodes && s.Nodes <= 1)
}

// Prefix is what the names of parameters begin with.
const Prefix = "coll."

// With returns a table in which the rules of the parameters "coll.NAME" come before those of t.
func (t Table) With(params map[string]string) (Table, error) {
	all := Table{}
	for name, rules := range t {
		all[name] = rules
	}
	for key, text := range params {
		name, ok := strings.CutPrefix(key, Prefix)
		if !ok {
			continue
		}
		c := find(name)
		if c == nil {
			return nil, fmt.Errorf("parameter %s: there is no such collective; known are %s", key, strings.Join(names(), ", "))
		}
		rules, err := c.parse(text)
		if err != nil {
			return nil, fmt.Errorf("parameter %s=%s: %w", key, text, err)
		}
		all[name] = append(rules, t[name]...)
	}
	return all, nil
}

func names() []string {
	var all []string
	for _, c := range Collectives {
		all = append(all, c.Name)
	}
	return all
}

func (c *Collective) parse(text string) ([]Rule, error) {
	var rules []Rule
	for part := range strings.SplitSeq(text, "/") {
		r, err := parseRule(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", part, err)
		}
		if !c.has(r.Algorithm) {
			return nil, fmt.Errorf("rule %q: %s is done by %v", part, c.Name, c.Algorithms)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(text string) (Rule, error) {
	r := Rule{MaxRanks: noLimit, MaxBytes: noLimit}
	head, conditions, some := strings.Cut(text, ":")
	name, segment, cut := strings.Cut(head, "@")
	for a := Algorithm(1); a < algorithms; a++ {
		if a.String() == name {
			r.Algorithm = a
		}
	}
	if r.Algorithm == 0 {
		return r, fmt.Errorf("no algorithm %q", name)
	}
	if cut {
		var err error
		if r.Segment, err = number(segment); err != nil || r.Segment == 0 {
			return r, fmt.Errorf("segment %q is not a number of bytes", segment)
		}
	}
	if !some {
		return r, nil
	}
	for c := range strings.SplitSeq(conditions, ",") {
		if err := r.condition(c); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *Rule) condition(text string) (err error) {
	switch name, value, _ := strings.Cut(text, "="); {
	case text == "crowded":
		r.Crowded = true
	case text == "roomy":
		r.Roomy = true
	case text == "node":
		r.OneNode = true
	case text == "nodes":
		r.Nodes = true
	case name == "n":
		r.MinRanks, r.MaxRanks, err = interval(value)
	case name == "b":
		r.MinBytes, r.MaxBytes, err = interval(value)
	default:
		err = fmt.Errorf("no condition %q", text)
	}
	return err
}

// interval reads LO-HI, LO-, -HI or one number.
func interval(text string) (lo, hi int, err error) {
	from, to, both := strings.Cut(text, "-")
	if !both {
		to = from
	}
	hi = noLimit
	if from != "" {
		lo, err = number(from)
	}
	if to != "" && err == nil {
		hi, err = number(to)
	}
	if err == nil && (lo > hi || text == "") {
		err = fmt.Errorf("%q is not a range", text)
	}
	return lo, hi, err
}

// number reads a count with an optional k or m, which are powers of two.
func number(text string) (int, error) {
	digits, shift := text, 0
	switch {
	case strings.HasSuffix(text, "k"):
		digits, shift = text[:len(text)-1], 10
	case strings.HasSuffix(text, "m"):
		digits, shift = text[:len(text)-1], 20
	}
	n, err := strconv.ParseUint(digits, 10, 40)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return int(n << shift), nil
}

// String is the rule as it is parsed.
func (r Rule) String() string {
	text := r.Algorithm.String()
	if r.Segment > 0 {
		text += "@" + short(r.Segment)
	}
	var conditions []string
	for _, c := range []struct {
		is   bool
		text string
	}{
		{r.Crowded, "crowded"}, {r.Roomy, "roomy"}, {r.OneNode, "node"}, {r.Nodes, "nodes"},
		{r.MinRanks > 0 || r.MaxRanks < noLimit, "n=" + span(r.MinRanks, r.MaxRanks)},
		{r.MinBytes > 0 || r.MaxBytes < noLimit, "b=" + span(r.MinBytes, r.MaxBytes)},
	} {
		if c.is {
			conditions = append(conditions, c.text)
		}
	}
	if len(conditions) > 0 {
		text += ":" + strings.Join(conditions, ",")
	}
	return text
}

// Format is the text of several rules.
func Format(rules []Rule) string {
	var parts []string
	for _, r := range rules {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "/")
}

func span(lo, hi int) string {
	switch {
	case lo == hi:
		return short(lo)
	case hi == noLimit:
		return short(lo) + "-"
	case lo == 0:
		return "-" + short(hi)
	}
	return short(lo) + "-" + short(hi)
}

func short(n int) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "m"
	case n > 0 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "k"
	}
	return strconv.Itoa(n)
}
