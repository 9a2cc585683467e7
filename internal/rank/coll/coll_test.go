package coll

import (
	"strings"
	"testing"
)

// Every shape and size has a rule, the last of each collective has no condition.
func TestBuiltIn(t *testing.T) {
	table := BuiltIn()
	for _, c := range Collectives {
		rules := table[c.Name]
		if got := Format(rules); got != c.Rules {
			t.Errorf("%s: %s is read as %s", c.Name, c.Rules, got)
		}
		if last := rules[len(rules)-1]; last.Algorithm == Shared || last != (Rule{Algorithm: last.Algorithm, Segment: last.Segment, MaxRanks: noLimit, MaxBytes: noLimit}) {
			t.Errorf("%s: the last rule has conditions: %v", c.Name, last)
		}
	}
}

func TestChoice(t *testing.T) {
	table, err := BuiltIn().With(map[string]string{
		"coll.allreduce": "ring:n=4-7,b=1k-2k/central:nodes,b=-8/linear:roomy,n=9",
		"tcp.eager":      "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		shape Shape
		bytes int
		want  Algorithm
	}{
		{Shape{5, 1, false}, 1024, Ring},
		{Shape{5, 1, false}, 2048, Ring},
		{Shape{8, 3, true}, -1, Central},
		{Shape{8, 3, true}, 8, Central},
		{Shape{9, 1, false}, 1 << 30, Linear},
	} {
		if got := table.Plan("allreduce", x.shape).For(x.bytes).Algorithm; got != x.want {
			t.Errorf("%v of %d bytes: %v, want %v", x.shape, x.bytes, got, x.want)
		}
	}
	plan := append(Plan{{Algorithm: Shared, MaxBytes: noLimit}}, table.Plan("allreduce", Shape{5, 1, false})...)
	if a, b := plan.For(1024).Algorithm, plan.Instead(1024).Algorithm; a != Shared || b != Ring {
		t.Errorf("%v where memory is shared, %v where it is not", a, b)
	}
	builtIn := BuiltIn().Plan("allreduce", Shape{Ranks: 3, Nodes: 1})
	if got := table.Plan("allreduce", Shape{Ranks: 3, Nodes: 1}); Format(got) != Format(builtIn) {
		t.Errorf("where no rule fits it is %v, not %v", got, builtIn)
	}
}

// Rules that make no sense are refused by name.
func TestRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                        "no algorithm",
		"fast":                    "no algorithm",
		"bruck":                   "is done by",
		"ring@":                   "segment",
		"ring@0":                  "segment",
		"ring@x":                  "segment",
		"ring:":                   "no condition",
		"ring:m=3":                "no condition",
		"ring:n=":                 "range",
		"ring:n=5-4":              "range",
		"ring:n=a-4":              "not a number",
		"ring:b=-5-4":             "not a number",
		"ring:b=2g":               "not a number",
		"ring/":                   "no algorithm",
		"ring:b=9999999999999999": "not a number",
	} {
		_, err := BuiltIn().With(map[string]string{"coll.allreduce": text})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if _, err := BuiltIn().With(map[string]string{"coll.allredcue": "ring"}); err == nil || !strings.Contains(err.Error(), "allreduce") {
		t.Errorf("a misspelt collective: %v", err)
	}
}

// Whatever is accepted can be written and read again, and does not panic when
// used.
func FuzzRules(f *testing.F) {
	for _, c := range Collectives {
		f.Add(c.Rules)
	}
	f.Add("halving@64k:n=2-,b=-2k,nodes/ring:roomy,node,n=7")
	c := find("allreduce")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := c.parse(text)
		if err != nil {
			return
		}
		again, err := c.parse(Format(rules))
		if err != nil || Format(again) != Format(rules) {
			t.Fatalf("%q: written %q, read %v, %v", text, Format(rules), again, err)
		}
		table, err := BuiltIn().With(map[string]string{"coll.allreduce": text})
		if err != nil {
			t.Fatal(err)
		}
		table.Plan("allreduce", Shape{Ranks: 4, Nodes: 2}).For(100)
	})
}
