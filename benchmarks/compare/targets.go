package main

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

// target is what gorun must reach beside others in the same rounds.
type target struct {
	what     string
	tests    []string
	low      int // sizes
	high     int
	ranks    int
	over     string  // transport
	against  string  // contender, "": the best of them
	most     float64 // highest ratio of our time to theirs
	stretch  float64 // and what would be better still
	messages bool    // the numbers are ratios of messages per second: the larger the better
}

var collectiveTests = []string{"barrier", "allreduce", "bcast", "alltoall", "allgather", "reduce_scatter"}

// targets are the project's.
var targets = slices.Concat([]target{
	{what: "8 B latency", tests: []string{"pingpong"}, low: 8, high: 8, ranks: 2, over: "shm", against: "openmpi", most: 0.75, stretch: 0.65},
	{what: "8 B latency", tests: []string{"pingpong"}, low: 8, high: 8, ranks: 2, over: "shm", most: 1, stretch: 0.8},
	{what: "8 B messages/s", tests: []string{"window"}, low: 8, high: 8, ranks: 2, over: "shm", most: 2, stretch: 2.6, messages: true},
	{what: "1-8 KB latency", tests: []string{"pingpong"}, low: 1 << 10, high: 8 << 10, ranks: 2, over: "shm", most: 0.85, stretch: 0.75},
	{what: "64 KB - 16 MB, dirty", tests: []string{"dirty"}, low: 64 << 10, high: 16 << 20, ranks: 2, over: "shm", most: 0.75, stretch: 0.6},
	{what: "1-16 MB, clean", tests: []string{"pingpong"}, low: 1 << 20, high: 16 << 20, ranks: 2, over: "shm", most: 1.05, stretch: 0.9},
	{what: "a column of 1024", tests: []string{"column"}, low: 8 << 10, high: 8 << 10, ranks: 2, over: "shm", against: "openmpi", most: 1, stretch: 0.8},
	{what: "8 B latency", tests: []string{"pingpong"}, low: 8, high: 8, ranks: 2, over: "tcp", most: 0.95, stretch: 0.85},
	{what: "64 KB latency", tests: []string{"pingpong"}, low: 64 << 10, high: 64 << 10, ranks: 2, over: "tcp", most: 0.75, stretch: 0.6},
	{what: "1 MB latency", tests: []string{"pingpong"}, low: 1 << 20, high: 1 << 20, ranks: 2, over: "tcp", most: 1, stretch: 0.9},
	{what: "8 B messages/s", tests: []string{"window"}, low: 8, high: 8, ranks: 2, over: "tcp", most: 5, stretch: 15, messages: true},
},
	collectiveTargets("8 B", 0, 8, [][3]float64{{2, 1, 0.8}, {4, 0.7, 0.5}, {16, 0.4, 0.25}, {64, 0.1, 0.02}}),
	collectiveTargets("1 MB", 1<<20, 1<<20, [][3]float64{{2, 1.1, 0.9}, {4, 0.6, 0.4}, {16, 0.5, 0.3}, {64, 0.5, 0.3}}),
	[]target{
		{what: "start to end, 2 ranks", tests: []string{"start"}, ranks: 2, over: "shm", most: 0.6, stretch: 0.3},
		{what: "start to end, 16 ranks", tests: []string{"start"}, ranks: 16, over: "shm", most: 0.6, stretch: 0.3},
		{what: "start to end, 64 ranks", tests: []string{"start"}, ranks: 64, over: "shm", most: 0.6, stretch: 0.3},
		{what: "heat and solver, 2 ranks, outside computation", tests: []string{"heat outside", "solver outside"}, ranks: 2, over: "shm", against: "openmpi", most: 0.9, stretch: 0.7},
		{what: "cg, 4 ranks, outside computation", tests: []string{"cg outside"}, ranks: 4, over: "shm", against: "openmpi", most: 1, stretch: 0.7},
		{what: "heat and solver, slow-down on 8 ranks", tests: []string{"heat slow-down", "solver slow-down"}, ranks: 8, over: "shm", against: "openmpi", most: 0.6, stretch: 0.4},
		{what: "heat and solver, slow-down on 64 ranks", tests: []string{"heat slow-down", "solver slow-down"}, ranks: 64, over: "shm", against: "openmpi", most: 0.6, stretch: 0.4},
	})

// collectiveTargets are those of one size, by ranks.
func collectiveTargets(size string, low, high int, byRanks [][3]float64) []target {
	var all []target
	for _, r := range byRanks {
		all = append(all, target{what: fmt.Sprintf("collectives, %s, %g ranks", size, r[0]), tests: collectiveTests, low: low, high: high,
			ranks: int(r[0]), over: "shm", against: "openmpi", most: r[1], stretch: r[2]})
	}
	return all
}

func (t *target) holds(k key) bool {
	return slices.Contains(t.tests, k.test) && k.transport == t.over && k.ranks == t.ranks && k.bytes >= t.low && k.bytes <= t.high
}

// ratio is our time to another's.
type ratio struct {
	to        string // "": there is no other
	median    float64
	low, high float64 // 95 % confidence interval of the median
}

// compare returns the ratio of our times at k to those of a contender, or of
// the best of all.
func (s samples) compare(k key, against string) ratio {
	by := s[k]
	if against == "" {
		against = s.best(k)
	}
	r := by[ours].over(by[against]).values()
	if len(r) == 0 {
		return ratio{}
	}
	low, high := stats.Interval(r)
	return ratio{to: against, median: stats.Median(r), low: low, high: high}
}

// best returns the other contender with the smallest median, "" if there is none.
func (s samples) best(k key) string {
	best := ""
	for name, v := range s[k] {
		if name == ours || slices.Contains(references, name) {
			continue
		}
		if best == "" || v.median() < s[k][best].median() {
			best = name
		}
	}
	return best
}

// verdict is what became of a target at one key.
type verdict struct {
	key   key
	ratio ratio
	worth float64 // the ratio as the target counts it
	word  string
}

const (
	missed    = "MISSED"
	reached   = "reached"
	stretched = "stretch"
)

// judge returns a verdict for every key that the target is about and that was
// measured.
func (t *target) judge(s samples) []verdict {
	var all []verdict
	for _, k := range s.keys() {
		if v, ok := t.at(s, k); ok {
			all = append(all, v)
		}
	}
	return all
}

// at returns the verdict at one key, if there is one.
func (t *target) at(s samples, k key) (v verdict, ok bool) {
	if !t.holds(k) {
		return v, false
	}
	v = verdict{key: k, ratio: s.compare(k, t.against), word: missed}
	if v.ratio.to == "" {
		return v, false
	}
	v.worth = v.ratio.median
	better := func(limit float64) bool { return v.worth <= limit }
	if t.messages {
		v.worth = 1 / v.ratio.median
		better = func(limit float64) bool { return v.worth >= limit }
	}
	switch {
	case better(t.stretch):
		v.word = stretched
	case better(t.most):
		v.word = reached
	}
	return v, true
}
