// Package coll is the table that says which algorithm a collective uses. It is pure logic: package schedule has the
// algorithms.
//
// A choice depends only on what all ranks of a communicator agree on: the collective, the number of ranks,
// whether they share CPUs and nodes, and the bytes that one rank contributes. A choice is written as rules. The
// first rule that fits counts:
//
//	rule      = algorithm ["@" segment] [":" condition {"," condition}]
//	rules     = rule {"/" rule}
//	condition = "n=" range | "b=" range    ranks, bytes; LO-HI, -HI, LO- or one number, k and m are allowed
//	          | "crowded" | "roomy"        more ranks than CPUs on some node, or not
//	          | "node" | "nodes"           the communicator lies on one node, or on several
//
// An example is central:crowded,n=4-,b=-2k/doubling:b=-8k/halving@64k. Bytes are those of one rank's buffer. In
// gather, scatter and allgather they are those of a block.
package coll

import "slices"

// Algorithm is a way to carry out a collective.
type Algorithm uint8

const (
	Central  Algorithm = 1 + iota // all to rank 0 (or the root), which does the work, and back
	Linear                        // every rank sends everything to its destination directly, all at once
	Binomial                      // along a binomial tree
	Doubling                      // with partners at doubling distances
	Halving                       // shares of halving size to partners at doubling distances, and back
	Bruck                         // like Doubling for any number of ranks: blocks travel together
	Ring                          // shares go from neighbour to neighbour
	Scatter                       // shares go down a tree, then round the ring
	Chain                         // everything goes from neighbour to neighbour, in segments
	Pairwise                      // with every other rank in turn
	Levels                        // within each node, then between the first ranks of the nodes
	Shared                        // through shared memory, without messages; where there is none the next rule counts
	algorithms
)

var algorithmNames = [...]string{"", "central", "linear", "binomial", "doubling", "halving", "bruck", "ring", "scatter", "chain", "pairwise", "levels", "shared"}

func (a Algorithm) String() string {
	if a < algorithms {
		return algorithmNames[a]
	}
	return "?"
}

// Collective is a family of collectives that are carried out alike.
type Collective struct {
	Name       string // as in "coll.NAME"
	Algorithms []Algorithm
	Rules      string // built in
}

// Collectives are the collectives that have a choice.
var Collectives = []Collective{
	{"barrier", []Algorithm{Central, Linear, Binomial, Doubling, Levels, Shared},
		"levels:nodes/shared/linear:crowded,n=3-6/central:crowded,n=7-/doubling"},
	{"bcast", []Algorithm{Linear, Binomial, Scatter, Chain, Levels, Shared},
		"levels:nodes,b=-64k/shared:b=-16k/shared:crowded,n=3-/linear:crowded,n=-6/linear:roomy,n=-3/scatter:roomy,n=4-,b=64k-/binomial"},
	{"reduce", []Algorithm{Central, Binomial, Halving, Ring, Shared},
		"central:crowded,b=-1k/shared:crowded,n=3-,b=256k-/binomial:b=-64k/halving"},
	{"allreduce", []Algorithm{Central, Linear, Binomial, Doubling, Halving, Pairwise, Ring, Levels, Shared},
		"levels:nodes,b=-256/doubling:n=2,b=-256/shared:b=-16k/shared:crowded,n=3-/linear:crowded,n=3-6,b=-256/central:crowded,n=3-,b=-1k/doubling:b=-8k/halving"},
	{"reduce_scatter", []Algorithm{Central, Doubling, Halving, Pairwise, Ring, Shared},
		"central:crowded,n=33-,b=-8k/pairwise:n=2,b=-256/shared:b=-16k/shared:crowded,n=3-/pairwise:crowded,n=3-6/central:crowded,n=7-,b=-16k/doubling:b=-2k/pairwise:crowded/halving"},
	{"gather", []Algorithm{Linear, Binomial, Shared},
		"linear:crowded/binomial:n=3-,b=-8k/linear"},
	{"scatter", []Algorithm{Linear, Binomial, Shared},
		"linear:crowded/binomial:n=3-,b=-8k/linear"},
	{"allgather", []Algorithm{Central, Linear, Bruck, Ring, Levels, Shared},
		"levels:nodes,b=-256/shared:b=-64k/shared:crowded,n=3-/central:crowded,n=7-,b=-256/linear:crowded,n=-6/linear:crowded,b=-4k/bruck:n=3-,b=-2k/ring"},
	{"allgatherv", []Algorithm{Linear, Ring},
		"linear:crowded/ring"},
	{"alltoall", []Algorithm{Central, Linear, Bruck, Pairwise, Shared},
		"shared:b=-128k/shared:crowded,n=3-24,b=-1m/shared:crowded,n=25-/central:crowded,n=7-,b=-4k/linear:crowded,n=-24/linear:crowded,b=-64k/bruck:n=5-,b=-4k/pairwise"},
	{"alltoallv", []Algorithm{Linear, Pairwise},
		"linear:crowded/pairwise"},
	{"scan", []Algorithm{Central, Doubling, Shared},
		"shared:crowded,n=3-,b=-256/central:crowded,n=3-,b=-256/doubling"},
}

// find returns the collective of a name, nil if there is none.
func find(name string) *Collective {
	for i := range Collectives {
		if Collectives[i].Name == name {
			return &Collectives[i]
		}
	}
	return nil
}

func (c *Collective) has(a Algorithm) bool { return slices.Contains(c.Algorithms, a) }

// Shape is what is known of a communicator's ranks.
type Shape struct {
	Ranks   int
	Nodes   int  // on which they lie
	Crowded bool // the job has more ranks than CPUs on some node
}

// Plan is the choice for one collective on communicators of one shape.
type Plan []Rule

// For returns the rule for a call of so many bytes; -1 counts as 0.
func (p Plan) For(bytes int) *Rule { return p.pick(bytes, true) }

// Instead returns the rule for ranks that have no memory that all of them see.
func (p Plan) Instead(bytes int) *Rule { return p.pick(bytes, false) }

func (p Plan) pick(bytes int, shared bool) *Rule {
	for i := range p {
		r := &p[i]
		if (shared || r.Algorithm != Shared) && (bytes >= r.MinBytes && bytes <= r.MaxBytes || bytes < 0 && r.MinBytes == 0) {
			return r
		}
	}
	return &p[len(p)-1] // it has no conditions
}

// Table is a choice for all shapes.
type Table map[string][]Rule

// BuiltIn is the table of a program without parameters.
func BuiltIn() Table {
	t := Table{}
	for i := range Collectives {
		c := &Collectives[i]
		rules, err := c.parse(c.Rules)
		if err != nil {
			panic("coll: " + err.Error()) // cannot happen: a test reads all rules
		}
		t[c.Name] = rules
	}
	return t
}

// Plan picks the rules for a shape.
func (t Table) Plan(name string, s Shape) Plan {
	var p Plan
	for _, r := range t[name] {
		if r.fits(s) {
			p = append(p, r)
		}
	}
	return p
}
