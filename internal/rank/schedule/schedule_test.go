package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// most is the largest number of ranks that is gone through.
const most = 20

// rank interprets the schedule of one rank. Elements are texts, so that a result tells what was combined with what.
type rank struct {
	s     *schedule.Schedule
	mem   [][]string
	round int
	begun bool
}

func (r *rank) at(x schedule.Span) []string { return r.mem[x.Mem][x.Off : x.Off+x.Len] }

// network carries messages between ranks, in order for each pair.
type network struct {
	ranks []*rank
	wire  map[[2]int][][]string
}

// part adds the part of one rank to its schedule.
type part func(s *schedule.Schedule, rank int)

// run interprets the schedules of n ranks until nothing moves. pick chooses who goes next.
func run(n int, of part, in, out func(rank int) []string, inPlace bool, pick func(n int) int) ([]*rank, error) {
	net := &network{wire: map[[2]int][][]string{}}
	for i := range n {
		r := &rank{s: new(schedule.Schedule)}
		of(r.s, i)
		r.mem = [][]string{in(i), out(i)}
		for _, k := range r.s.Rooms {
			r.mem = append(r.mem, make([]string, k))
		}
		if inPlace {
			r.mem[schedule.In] = r.mem[schedule.Out]
		}
		net.ranks = append(net.ranks, r)
	}
	for {
		var able []int
		for i, r := range net.ranks {
			if net.able(i, r) {
				able = append(able, i)
			}
		}
		if len(able) == 0 {
			break
		}
		i := able[pick(len(able))]
		if err := net.step(i, net.ranks[i]); err != nil {
			return nil, fmt.Errorf("rank %d of %d: %w", i, n, err)
		}
	}
	for i, r := range net.ranks {
		if r.round != len(r.s.Rounds) {
			return nil, fmt.Errorf("rank %d of %d waits for ever in round %d", i, n, r.round)
		}
	}
	for pair, left := range net.wire {
		if len(left) > 0 {
			return nil, fmt.Errorf("%d messages of %v are left over", len(left), pair)
		}
	}
	return net.ranks, nil
}

func (net *network) able(i int, r *rank) bool {
	if r.round == len(r.s.Rounds) {
		return false
	}
	if !r.begun {
		return true
	}
	seen := map[int]int{}
	for _, m := range r.s.Rounds[r.round].Messages {
		if m.Recv {
			if seen[m.Peer]++; len(net.wire[[2]int{m.Peer, i}]) < seen[m.Peer] {
				return false
			}
		}
	}
	return true
}

func (net *network) step(i int, r *rank) error {
	round := r.s.Rounds[r.round]
	if !r.begun {
		r.begun = true
		for _, m := range round.Messages {
			if m.Peer == i || m.Peer < 0 || m.Peer >= len(net.ranks) {
				return fmt.Errorf("round %d: a message with rank %d", r.round, m.Peer)
			}
			if !m.Recv {
				pair := [2]int{i, m.Peer}
				net.wire[pair] = append(net.wire[pair], slices.Clone(r.at(m.Span)))
			}
		}
		return nil
	}
	for _, m := range round.Messages {
		if m.Recv {
			pair := [2]int{m.Peer, i}
			got := net.wire[pair][0]
			net.wire[pair] = net.wire[pair][1:]
			if len(got) != m.Len {
				return fmt.Errorf("round %d: %d elements of rank %d, not %d", r.round, len(got), m.Peer, m.Len)
			}
			if m.Mem == schedule.In && m.Len > 0 {
				return fmt.Errorf("round %d: In is written", r.round)
			}
			copy(r.at(m.Span), got)
		}
	}
	for _, x := range round.Steps {
		if err := r.do(x); err != nil {
			return fmt.Errorf("round %d: step %+v: %w", r.round, x, err)
		}
	}
	r.begun = false
	r.round++
	return nil
}

// do carries a step out.
func (r *rank) do(x schedule.Step) error {
	if x.Dst.Mem == schedule.In || x.Dst.Len != x.Low.Len || x.Combine && x.Dst.Len != x.High.Len {
		return errors.New("wrong places")
	}
	if !x.Combine {
		copy(r.at(x.Dst), r.at(x.Low))
		return nil
	}
	low, high := slices.Clone(r.at(x.Low)), slices.Clone(r.at(x.High))
	for k, dst := 0, r.at(x.Dst); k < len(dst); k++ {
		dst[k] = "(" + low[k] + high[k] + ")"
	}
	return nil
}

func first(int) int { return 0 }

// own are k elements of a rank.
func own(r, k int) []string {
	p := make([]string, k)
	for i := range p {
		p[i] = fmt.Sprintf("%d.%d ", r, i)
	}
	return p
}

func none(k int) []string { return slices.Repeat([]string{"-"}, k) }

// tree combines element i of the ranks as package mpi does.
func tree(n, i int) string {
	o := schedule.OrderOf(n)
	var parts []string
	for r := 0; r < n; r++ {
		x := fmt.Sprintf("%d.%d ", r, i)
		if r < 2*o.Extra {
			r++
			x = fmt.Sprintf("(%s%d.%d )", x, r, i)
		}
		parts = append(parts, x)
	}
	for len(parts) > 1 {
		var half []string
		for k := 0; k < len(parts); k += 2 {
			half = append(half, "("+parts[k]+parts[k+1]+")")
		}
		parts = half
	}
	return parts[0]
}

func trees(n, lo, hi int) []string {
	var p []string
	for i := lo; i < hi; i++ {
		p = append(p, tree(n, i))
	}
	return p
}

// Every schedule does what its call promises, for every number of ranks and every root.
func TestAllSizes(t *testing.T) {
	for n := 1; n <= most; n++ {
		for _, k := range []int{0, 2} {
			everyCall(t, n, k, n/2, first)
		}
		for root := range n {
			if n <= 9 || root < 3 || root > n-3 {
				rooted(t, n, 2, root, first)
			}
		}
	}
}

// The order does not matter.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, most).Draw(t, "n")
		k := rapid.IntRange(0, 6).Draw(t, "k")
		seed := rapid.Uint64().Draw(t, "seed")
		pick := func(n int) int {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int(seed >> 33 % uint64(n))
		}
		everyCall(t, n, k, rapid.IntRange(0, n-1).Draw(t, "root"), pick)
		vectors(t, n, pick)
	})
}

func everyCall(t fataler, n, k, root int, pick func(int) int) {
	in := func(r int) []string { return own(r, k) }
	out := func(int) []string { return none(k) }
	nothing := func(int) []string { return nil }
	cuts := []schedule.Pieces{{}, {Size: 8, Bytes: 8}}
	for name, of := range map[string]func(s *schedule.Schedule, rank, n int){"Barrier": schedule.Barrier, "BarrierLinear": schedule.BarrierLinear,
		"BarrierCentral": schedule.BarrierCentral, "BarrierTree": schedule.BarrierTree} {
		check(t, name, n, func(s *schedule.Schedule, r int) { of(s, r, n) }, nothing, nothing, nothing, false, pick)
	}
	for _, place := range []bool{false, true} {
		o := out
		if place {
			o = in
		}
		all := func(int) []string { return trees(n, 0, k) }
		for name, of := range map[string]part{
			"Allreduce":         func(s *schedule.Schedule, r int) { schedule.Allreduce(s, r, n, k, place) },
			"AllreduceHalving":  func(s *schedule.Schedule, r int) { schedule.AllreduceHalving(s, r, n, k, place, false, cuts[0]) },
			"AllreduceCut":      func(s *schedule.Schedule, r int) { schedule.AllreduceHalving(s, r, n, k, place, false, cuts[1]) },
			"AllreduceTree":     func(s *schedule.Schedule, r int) { schedule.AllreduceTree(s, r, n, k, place) },
			"AllreduceCentral":  func(s *schedule.Schedule, r int) { schedule.AllreduceCentral(s, r, n, k) },
			"AllreduceLinear":   func(s *schedule.Schedule, r int) { schedule.AllreduceLinear(s, r, n, k) },
			"AllreducePairwise": func(s *schedule.Schedule, r int) { schedule.AllreducePairwise(s, r, n, k) },
		} {
			check(t, name, n, of, in, o, all, place, pick)
		}
		for _, cut := range cuts {
			checkAs(unordered, t, "AllreduceHalving that commutes", n, func(s *schedule.Schedule, r int) {
				schedule.AllreduceHalving(s, r, n, k, place, true, cut)
			}, in, o, all, place, pick)
		}
		checkAs(unordered, t, "AllreduceRing", n, func(s *schedule.Schedule, r int) { schedule.AllreduceRing(s, r, n, k) }, in, o, all, place, pick)
		scans(t, n, k, in, o, place, pick)
	}
	shares(t, n, k, pick)
	gathers(t, n, k, pick)
	rooted(t, n, k, root, pick)
}

// shares are ReduceScatter of k elements, in blocks that differ.
func shares(t fataler, n, k int, pick func(int) int) {
	b := schedule.Evenly(k, n)
	in := func(r int) []string { return own(r, k) }
	for _, place := range []bool{false, true} {
		var kept [][]string // what is not the result may be anything
		out := func(r int) []string { lo, hi := b(r); return none(hi - lo) }
		if place {
			out = in
		}
		want := func(r int) []string {
			lo, hi := b(r)
			p := trees(n, lo, hi)
			if place {
				p = append(p, kept[r][hi-lo:]...)
			}
			return p
		}
		for name, of := range map[string]part{
			"ReduceScatter":         func(s *schedule.Schedule, r int) { schedule.ReduceScatter(s, r, n, b) },
			"ReduceScatterCentral":  func(s *schedule.Schedule, r int) { schedule.ReduceScatterCentral(s, r, n, k, b) },
			"ReduceScatterDoubling": func(s *schedule.Schedule, r int) { schedule.ReduceScatterDoubling(s, r, n, k, b) },
			"ReduceScatterHalving": func(s *schedule.Schedule, r int) {
				schedule.ReduceScatterHalving(s, r, n, k, b, false, schedule.Pieces{})
			},
			"ReduceScatterCut": func(s *schedule.Schedule, r int) {
				schedule.ReduceScatterHalving(s, r, n, k, b, true, schedule.Pieces{Size: 8, Bytes: 8})
			},
			"ReduceScatterRing": func(s *schedule.Schedule, r int) { schedule.ReduceScatterRing(s, r, n, k, b) },
			"ReduceScatterTwo": func(s *schedule.Schedule, r int) {
				schedule.ReduceScatterTwo(s, r, b, place, k%2 == 0, schedule.Pieces{Size: 8, Bytes: 8})
			},
		} {
			if name == "ReduceScatterTwo" && n != 2 {
				continue
			}
			kept = nil
			for r := range n {
				kept = append(kept, out(r))
			}
			as := exactly
			if name == "ReduceScatterRing" || name == "ReduceScatterCut" || name == "ReduceScatterTwo" {
				as = unordered
			}
			checkAs(as, t, name, n, of, in, out, want, place, pick)
		}
	}
}

// gathers are Allgather and Alltoall with blocks of k elements.
func gathers(t fataler, n, k int, pick func(int) int) {
	b := schedule.Equal(k)
	out := func(int) []string { return none(n * k) }
	var whole []string
	for r := range n {
		whole = append(whole, own(r, k)...)
	}
	for name, of := range map[string]part{
		"Allgather":         func(s *schedule.Schedule, r int) { schedule.Allgather(s, r, n, b, false) },
		"AllgatherDoubling": func(s *schedule.Schedule, r int) { schedule.AllgatherDoubling(s, r, n, k) },
		"AllgatherRing":     func(s *schedule.Schedule, r int) { schedule.AllgatherRing(s, r, n, b, false) },
		"AllgatherCentral":  func(s *schedule.Schedule, r int) { schedule.AllgatherCentral(s, r, n, n*k, b) },
	} {
		check(t, name, n, of, func(r int) []string { return own(r, k) }, out, func(int) []string { return whole }, false, pick)
	}
	for name, of := range map[string]part{
		"Alltoall":          func(s *schedule.Schedule, r int) { schedule.Alltoall(s, r, n, b, b, n) },
		"Alltoall pairwise": func(s *schedule.Schedule, r int) { schedule.Alltoall(s, r, n, b, b, 1) },
		"AlltoallCentral":   func(s *schedule.Schedule, r int) { schedule.AlltoallCentral(s, r, n, k) },
		"AlltoallBruck":     func(s *schedule.Schedule, r int) { schedule.AlltoallBruck(s, r, n, k) },
	} {
		check(t, name, n, of, func(r int) []string { return own(r, n*k) }, out, func(r int) (p []string) {
			for from := range n {
				p = append(p, own(from, n*k)[r*k:(r+1)*k]...)
			}
			return p
		}, false, pick)
	}
}

// scans are Scan and Exscan: only adjacent ranks are combined, in their order.
func scans(t fataler, n, k int, in, out func(int) []string, place bool, pick func(int) int) {
	for _, exclusive := range []bool{false, true} {
		for _, of := range []part{
			func(s *schedule.Schedule, r int) { schedule.Scan(s, r, n, k, exclusive, place) },
			func(s *schedule.Schedule, r int) { schedule.ScanCentral(s, r, n, k, exclusive) },
		} {
			scan(t, n, of, exclusive, in, out, place, pick)
		}
	}
}

func scan(t fataler, n int, of part, exclusive bool, in, out func(int) []string, place bool, pick func(int) int) {
	ranks, err := run(n, of, in, out, place, pick)
	if err != nil {
		t.Fatalf("Scan: %v", err)
	}
	for r, x := range ranks {
		for i, got := range x.mem[schedule.Out] {
			want, to := "", r
			if exclusive {
				to = r - 1
			}
			for b := 0; b <= to; b++ {
				want += fmt.Sprintf("%d.%d ", b, i)
			}
			if to < 0 {
				want = out(r)[i]
			}
			if flat(got) != want {
				t.Fatalf("Scan (exclusive %v, in place %v): rank %d of %d: %q, want %q", exclusive, place, r, n, got, want)
			}
		}
	}
}

// flat leaves the parentheses out.
func flat(s string) string {
	var p []rune
	for _, c := range s {
		if c != '(' && c != ')' {
			p = append(p, c)
		}
	}
	return string(p)
}

func rooted(t fataler, n, k, root int, pick func(int) int) {
	in := func(r int) []string { return own(r, k) }
	cuts := []schedule.Pieces{{}, {Size: 8, Bytes: 8}}
	casts := map[string]part{
		"BcastLinear":    func(s *schedule.Schedule, r int) { schedule.BcastLinear(s, r, n, root, k) },
		"BcastScattered": func(s *schedule.Schedule, r int) { schedule.BcastScattered(s, r, n, root, k, false) },
		"Bcast by ring":  func(s *schedule.Schedule, r int) { schedule.BcastScattered(s, r, n, root, k, true) },
	}
	for _, cut := range cuts {
		casts[fmt.Sprint("Bcast ", cut)] = func(s *schedule.Schedule, r int) { schedule.Bcast(s, r, n, root, k, cut) }
		casts[fmt.Sprint("BcastChain ", cut)] = func(s *schedule.Schedule, r int) { schedule.BcastChain(s, r, n, root, k, cut) }
	}
	for name, of := range casts {
		check(t, name, n, of, func(int) []string { return nil }, func(r int) []string {
			if r == root {
				return own(r, k)
			}
			return none(k)
		}, func(int) []string { return own(root, k) }, false, pick)
	}
	reductions(t, n, k, root, pick)
	for name, of := range map[string]part{
		"GatherTree": func(s *schedule.Schedule, r int) { schedule.GatherTree(s, r, n, root, k) },
	} {
		check(t, name, n, of, in, func(r int) []string { return none(n * k) }, func(r int) []string {
			if r != root {
				return none(n * k)
			}
			var p []string
			for i := range n {
				p = append(p, own(i, k)...)
			}
			return p
		}, false, pick)
	}
	check(t, "ScatterTree", n, func(s *schedule.Schedule, r int) { schedule.ScatterTree(s, r, n, root, k) },
		func(r int) []string { return own(r, n*k) }, func(int) []string { return none(k) },
		func(r int) []string { return own(root, n*k)[r*k : (r+1)*k] }, false, pick)
	vary := func(i int) (int, int) { return i * k, i*k + i%(k+1) } // blocks of different lengths, with gaps
	check(t, "Gather", n, func(s *schedule.Schedule, r int) { lo, hi := vary(r); schedule.Gather(s, r, n, root, hi-lo, vary) },
		in, func(int) []string { return none(n * k) }, func(r int) []string {
			p := none(n * k)
			for i := range n {
				if lo, hi := vary(i); r == root {
					copy(p[lo:hi], own(i, k))
				}
			}
			return p
		}, false, pick)
	check(t, "Scatter", n, func(s *schedule.Schedule, r int) { lo, hi := vary(r); schedule.Scatter(s, r, n, root, hi-lo, vary) },
		func(r int) []string { return own(r, n*k) }, func(int) []string { return none(k) }, func(r int) []string {
			p := none(k)
			lo, hi := vary(r)
			copy(p, own(root, n*k)[lo:hi])
			return p
		}, false, pick)
}

// reductions are Reduce. Ranks that are not the root have no memory for the result.
func reductions(t fataler, n, k, root int, pick func(int) int) {
	in := func(r int) []string { return own(r, k) }
	for _, place := range []bool{false, true} {
		o := func(r int) []string {
			if r == root {
				return none(k)
			}
			return nil
		}
		if place {
			o = in
		}
		all := map[string]part{
			"ReduceCentral": func(s *schedule.Schedule, r int) { schedule.ReduceCentral(s, r, n, root, k) },
			"ReduceRing":    func(s *schedule.Schedule, r int) { schedule.ReduceRing(s, r, n, root, k) },
		}
		for _, cut := range []schedule.Pieces{{}, {Size: 8, Bytes: 8}} {
			all[fmt.Sprint("Reduce ", cut)] = func(s *schedule.Schedule, r int) { schedule.Reduce(s, r, n, root, k, place, cut) }
			all[fmt.Sprint("ReduceHalving ", cut)] = func(s *schedule.Schedule, r int) { schedule.ReduceHalving(s, r, n, root, k, place, false, cut) }
			all[fmt.Sprint("ReduceHalving that commutes ", cut)] = func(s *schedule.Schedule, r int) { schedule.ReduceHalving(s, r, n, root, k, place, true, cut) }
		}
		for name, of := range all {
			as := exactly
			if name == "ReduceRing" || strings.Contains(name, "commutes") {
				as = unordered
			}
			checkAs(as, t, name, n, of, in, o, func(r int) []string {
				if r == root {
					return trees(n, 0, k)
				}
				return o(r)
			}, place, pick)
		}
	}
}

// vectors are Alltoall and ReduceScatter with lengths that differ from pair to pair.
func vectors(t *rapid.T, n int, pick func(int) int) {
	a, b := rapid.IntRange(0, 5).Draw(t, "a"), rapid.IntRange(1, 4).Draw(t, "b")
	length := func(from, to int) int { return (from*a + to) % b }
	place := func(of func(peer int) int) schedule.Blocks {
		return func(i int) (int, int) {
			lo := 0
			for r := range i {
				lo += of(r) + 1 // a gap after each
			}
			return lo, lo + of(i)
		}
	}
	in := func(r int) schedule.Blocks { return place(func(to int) int { return length(r, to) }) }
	out := func(r int) schedule.Blocks { return place(func(from int) int { return length(from, r) }) }
	size := func(b schedule.Blocks) int { _, hi := b(n - 1); return hi }
	check(t, "Alltoallv", n, func(s *schedule.Schedule, r int) { schedule.Alltoall(s, r, n, in(r), out(r), 3) },
		func(r int) []string { return own(r, size(in(r))) }, func(r int) []string { return none(size(out(r))) },
		func(r int) []string {
			p := none(size(out(r)))
			for from := range n {
				lo, hi := out(r)(from)
				slo, _ := in(from)(r)
				copy(p[lo:hi], own(from, size(in(from)))[slo:])
			}
			return p
		}, false, pick)
	k := schedule.Equal(b)
	check(t, "Alltoall in place", n, func(s *schedule.Schedule, r int) { schedule.AlltoallInPlace(s, r, n, k, 2) },
		nobody, func(r int) []string { return own(r, n*b) }, func(r int) []string {
			var p []string
			for from := range n {
				p = append(p, own(from, n*b)[r*b:(r+1)*b]...)
			}
			return p
		}, true, pick)
}

func nobody(int) []string { return nil }

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	Fatalf(format string, args ...any)
}

// check compares what Out holds afterwards on each rank.
func check(t fataler, what string, n int, of part, in, out, want func(int) []string, inPlace bool, pick func(int) int) {
	checkAs(exactly, t, what, n, of, in, out, want, inPlace, pick)
}

func checkAs(as func(string) string, t fataler, what string, n int, of part, in, out, want func(int) []string, inPlace bool, pick func(int) int) {
	ranks, err := run(n, of, in, out, inPlace, pick)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for i, r := range ranks {
		got, w := slices.Clone(r.mem[schedule.Out]), want(i)
		for k := range got {
			got[k] = as(got[k])
		}
		for k := range w {
			w[k] = as(w[k])
		}
		if !slices.Equal(got, w) {
			t.Fatalf("%s: rank %d of %d has\n%q, want\n%q", what, i, n, got, w)
		}
	}
}

func exactly(s string) string { return s }

// unordered tells only what was combined, not in which order.
func unordered(s string) string {
	parts := strings.Fields(flat(s))
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
