package schedule_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// most is the largest number of ranks that is gone through.
const most = 33

// rank interprets the schedule of one rank. Elements are texts, so that a result tells what was combined with what.
type rank struct {
	s     *schedule.Schedule
	mem   [3][]string
	round int
	begun bool
}

func (r *rank) at(x schedule.Span) []string { return r.mem[x.Mem][x.Off : x.Off+x.Len] }

// network carries messages between ranks, in order for each pair.
type network struct {
	ranks []*rank
	wire  map[[2]int][][]string
}

// run interprets the schedules of n ranks until nothing moves. pick chooses who goes next.
func run(n int, of func(rank int) *schedule.Schedule, in, out func(rank int) []string, inPlace bool, pick func(n int) int) ([]*rank, error) {
	net := &network{wire: map[[2]int][][]string{}}
	for i := range n {
		r := &rank{s: of(i)}
		r.mem = [3][]string{in(i), out(i), make([]string, r.s.Tmp)}
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
		dst, src := r.at(x.Dst), r.at(x.Src)
		if x.Dst.Len != x.Src.Len || x.Dst.Mem == schedule.In {
			return fmt.Errorf("round %d: step %+v", r.round, x)
		}
		for k := range dst {
			if x.Combine {
				dst[k] = "(" + dst[k] + src[k] + ")"
			} else {
				dst[k] = src[k]
			}
		}
	}
	r.begun = false
	r.round++
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
	check(t, "Barrier", n, func(r int) *schedule.Schedule { return schedule.Barrier(r, n) }, nothing, nothing, nothing, false, pick)
	for _, place := range []bool{false, true} {
		o := out
		if place {
			o = in
		}
		for _, halves := range []bool{false, true} {
			check(t, "Allreduce", n, func(r int) *schedule.Schedule { return schedule.Allreduce(r, n, k, place, halves) },
				in, o, func(int) []string { return trees(n, 0, k) }, place, pick)
		}
		scans(t, n, k, in, o, place, pick)
	}
	check(t, "ReduceScatter", n, func(r int) *schedule.Schedule { return schedule.ReduceScatter(r, n, schedule.Evenly(k, n)) }, in,
		func(r int) []string { lo, hi := schedule.Evenly(k, n)(r); return none(hi - lo) },
		func(r int) []string { lo, hi := schedule.Evenly(k, n)(r); return trees(n, lo, hi) }, false, pick)
	whole := func() (p []string) {
		for r := range n {
			p = append(p, own(r, k)...)
		}
		return p
	}
	check(t, "Allgather", n, func(r int) *schedule.Schedule { return schedule.Allgather(r, n, schedule.Equal(k)) },
		in, func(int) []string { return none(n * k) }, func(int) []string { return whole() }, false, pick)
	check(t, "AllgatherDoubling", n, func(r int) *schedule.Schedule { return schedule.AllgatherDoubling(r, n, k) },
		in, func(int) []string { return none(n * k) }, func(int) []string { return whole() }, false, pick)
	rooted(t, n, k, root, pick)
}

// scans are Scan and Exscan: only adjacent ranks are combined, in their order.
func scans(t fataler, n, k int, in, out func(int) []string, place bool, pick func(int) int) {
	for _, exclusive := range []bool{false, true} {
		ranks, err := run(n, func(r int) *schedule.Schedule { return schedule.Scan(r, n, k, exclusive, place) }, in, out, place, pick)
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
	for _, blocks := range []bool{false, true} {
		check(t, "Bcast", n, func(r int) *schedule.Schedule { return schedule.Bcast(r, n, root, k, blocks) },
			func(int) []string { return nil }, func(r int) []string {
				if r == root {
					return own(r, k)
				}
				return none(k)
			}, func(int) []string { return own(root, k) }, false, pick)
	}
	for _, place := range []bool{false, true} {
		o := func(int) []string { return none(k) }
		if place {
			o = in
		}
		check(t, "Reduce", n, func(r int) *schedule.Schedule { return schedule.Reduce(r, n, root, k, place) }, in, o,
			func(r int) []string {
				if r == root {
					return trees(n, 0, k)
				}
				return o(r)
			}, place, pick)
	}
	vary := func(i int) (int, int) { return i * k, i*k + i%(k+1) } // blocks of different lengths, with gaps
	check(t, "Gather", n, func(r int) *schedule.Schedule { lo, hi := vary(r); return schedule.Gather(r, n, root, hi-lo, vary) },
		in, func(int) []string { return none(n * k) }, func(r int) []string {
			p := none(n * k)
			for i := range n {
				if lo, hi := vary(i); r == root {
					copy(p[lo:hi], own(i, k))
				}
			}
			return p
		}, false, pick)
	check(t, "Scatter", n, func(r int) *schedule.Schedule { lo, hi := vary(r); return schedule.Scatter(r, n, root, hi-lo, vary) },
		func(r int) []string { return own(r, n*k) }, func(int) []string { return none(k) }, func(r int) []string {
			p := none(k)
			lo, hi := vary(r)
			copy(p, own(root, n*k)[lo:hi])
			return p
		}, false, pick)
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
	check(t, "Alltoallv", n, func(r int) *schedule.Schedule { return schedule.Alltoall(r, n, in(r), out(r), false) },
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
	check(t, "Alltoall in place", n, func(r int) *schedule.Schedule { return schedule.Alltoall(r, n, k, k, true) },
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
func check(t fataler, what string, n int, of func(int) *schedule.Schedule, in, out, want func(int) []string, inPlace bool, pick func(int) int) {
	ranks, err := run(n, of, in, out, inPlace, pick)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for i, r := range ranks {
		if w := want(i); !slices.Equal(r.mem[schedule.Out], w) {
			t.Fatalf("%s: rank %d of %d has\n%q, want\n%q", what, i, n, r.mem[schedule.Out], w)
		}
	}
}
