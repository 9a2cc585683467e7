package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// contender is an algorithm, whole or in segments.
type contender struct {
	algorithm coll.Algorithm
	segment   int
}

func (c contender) String() string { return c.rule().String() }

func (c contender) rule() coll.Rule {
	return coll.Rule{Algorithm: c.algorithm, Segment: c.segment, MaxRanks: math.MaxInt, MaxBytes: math.MaxInt}
}

// segmented are the algorithms that can cut a long buffer into pieces.
var segmented = map[coll.Algorithm]bool{coll.Binomial: true, coll.Chain: true, coll.Halving: true}

// contenders are the algorithms of a collective within a node.
func contenders(op string) []contender {
	var all []contender
	for _, c := range coll.Collectives {
		if c.Name != op {
			continue
		}
		for _, a := range c.Algorithms {
			if a == coll.Levels {
				continue
			}
			all = append(all, contender{a, 0})
			if segmented[a] && op != "barrier" {
				all = append(all, contender{a, 64 << 10})
			}
		}
	}
	return all
}

// timing are the times of one collective on so many ranks.
type timing struct {
	op      string
	ranks   int
	seconds map[contender]map[int][]float64 // by contender and bytes, a time for each round
}

func (t *timing) add(c contender, bytes int, seconds float64) {
	if t.seconds[c] == nil {
		t.seconds[c] = map[int][]float64{}
	}
	t.seconds[c][bytes] = append(t.seconds[c][bytes], seconds)
}

func (t *timing) of(c contender, bytes int) float64 { return stats.Median(t.seconds[c][bytes]) }

// sizes are those measured, rising.
func (t *timing) sizes() []int {
	for _, by := range t.seconds {
		return slices.Sorted(maps.Keys(by))
	}
	return nil
}

// contribution is what the table calls the bytes of a call: a block's in
// allgather.
func (t *timing) contribution(size int) int {
	if t.op == "allgather" {
		return max(8, size/8/t.ranks*8)
	}
	return size
}

// best returns the contender for each size. It keeps the contender of the size before, unless another is faster
// by more than slack.
func (t *timing) best(slack float64) []contender {
	all := contenders(t.op)
	var chosen []contender
	for i, size := range t.sizes() {
		fastest := slices.MinFunc(all, func(a, b contender) int {
			switch x, y := t.of(a, size), t.of(b, size); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		if i > 0 && t.of(chosen[i-1], size) <= t.of(fastest, size)*(1+slack) {
			fastest = chosen[i-1]
		}
		chosen = append(chosen, fastest)
	}
	return chosen
}

// rules are those for o.ranks[i], whose times these are.
func (t *timing) rules(o *options, i int) []coll.Rule {
	chosen, sizes := t.best(o.slack), t.sizes()
	crowded := func(n int) bool { return n > runtime.NumCPU() }
	shape := coll.Rule{MaxRanks: math.MaxInt, Crowded: crowded(t.ranks), Roomy: !crowded(t.ranks), OneNode: true}
	if i > 0 && crowded(o.ranks[i-1]) == crowded(t.ranks) {
		shape.MinRanks = middle(o.ranks[i-1], t.ranks) + 1
	}
	if i+1 < len(o.ranks) && crowded(o.ranks[i+1]) == crowded(t.ranks) {
		shape.MaxRanks = middle(t.ranks, o.ranks[i+1])
	}
	var rules []coll.Rule
	least := 0
	for k, c := range chosen {
		most := math.MaxInt
		if k+1 < len(sizes) {
			if chosen[k+1] == c {
				continue
			}
			most = middle(t.contribution(sizes[k]), t.contribution(sizes[k+1]))
		}
		r := shape
		r.Algorithm, r.Segment, r.MinBytes, r.MaxBytes = c.algorithm, c.segment, least, most
		rules = append(rules, r)
		least = most + 1
	}
	return rules
}

// middle is the geometric mean.
func middle(a, b int) int { return int(math.Sqrt(float64(a) * float64(b))) }

// print shows the times in microseconds.
func (t *timing) print(w io.Writer, all []contender) {
	fmt.Fprintf(w, "\n%s, %d ranks, us\n%12s", t.op, t.ranks, "bytes")
	for _, c := range all {
		fmt.Fprintf(w, " %12s", c)
	}
	fmt.Fprintln(w)
	for _, size := range t.sizes() {
		fmt.Fprintf(w, "%12d", size)
		for _, c := range all {
			fmt.Fprintf(w, " %12.2f", t.of(c, size)*1e6)
		}
		fmt.Fprintln(w)
	}
}
