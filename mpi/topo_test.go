package mpi_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// Dims divides n, keeps what is given, does not rise, and no other division has a smaller largest part.
func TestDims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "dimensions")
		given := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 1, 2, 3}), k, k).Draw(t, "given")
		n := rapid.IntRange(1, 200).Draw(t, "ranks")
		open := 0
		for _, d := range given {
			n *= max(d, 1)
			if d == 0 {
				open++
			}
		}
		dims, err := mpi.Dims(n, given)
		if err != nil {
			if open > 0 || !errors.Is(err, mpi.ErrDims) {
				t.Fatal(err)
			}
			return
		}
		product, before, rest := 1, math.MaxInt, n
		var found []int
		for i, d := range dims {
			product *= d
			if given[i] != 0 {
				rest /= d
				if d != given[i] {
					t.Fatalf("%v, given %v", dims, given)
				}
				continue
			}
			if d > before {
				t.Fatalf("%v rises", dims)
			}
			before = d
			found = append(found, d)
		}
		if product != n || open > 0 && found[0] != smallestLargest(rest, open) {
			t.Fatalf("%d ranks in %v, given %v", n, dims, given)
		}
	})
}

// smallestLargest tries all divisions of n into k parts.
func smallestLargest(n, k int) int {
	if k == 1 {
		return n
	}
	best := n
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			best = min(best, max(d, smallestLargest(n/d, k-1)))
		}
	}
	return best
}

type grid struct {
	dims     []int
	periodic []bool
}

func drawGrid(t *rapid.T) (g grid, points int) {
	points = 1
	for range rapid.IntRange(1, 3).Draw(t, "dimensions") {
		d := rapid.IntRange(1, 3).Draw(t, "length")
		if points*d > 9 {
			d = 1
		}
		points *= d
		g.dims, g.periodic = append(g.dims, d), append(g.periodic, rapid.Bool().Draw(t, "periodic"))
	}
	return g, points
}

// Coordinates and ranks are each other's inverse; a shift there and back ends where it began; what neighbours send
// each other arrives where the other is; and a grid's parts are grids.
func TestCart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, points := drawGrid(rt)
		more := rapid.IntRange(0, 2).Draw(rt, "other ranks")
		remain := rapid.SliceOfN(rapid.Bool(), len(g.dims), len(g.dims)).Draw(rt, "remain")
		reorder := rapid.Bool().Draw(rt, "reorder")
		mpitest.Run(drawn{t, rt}, points+more, func(c *mpi.Comm) error {
			cart, err := c.Cart(g.dims, g.periodic, reorder)
			if err != nil || cart == nil {
				return all(err, want("ranks without a point", []bool{cart == nil}, []bool{c.Rank() >= points}))
			}
			return all(coordinates(cart), shifts(cart), parts(cart, remain), neighbours(cart), cart.Free())
		})
	})
}

func coordinates(cart *mpi.Cart) error {
	for r := range cart.Size() {
		at, err := cart.Coords(r)
		if err != nil {
			return err
		}
		back, err := cart.RankAt(at...)
		if err != nil || back != r {
			return fmt.Errorf("rank %d at %v is %d: %w", r, at, back, err)
		}
	}
	return nil
}

func shifts(cart *mpi.Cart) error {
	for d := range cart.Dims() {
		for _, by := range []int{1, -1, 2} {
			src, dst, err := cart.Shift(d, by)
			if err != nil {
				return err
			}
			got := []int{-1}
			if _, err := mpi.Sendrecv(cart.Comm, []int{cart.Rank()}, dst, 0, got, src, 0); err != nil {
				return err
			}
			if src != mpi.ProcNull && got[0] != src || src == mpi.ProcNull && got[0] != -1 {
				return fmt.Errorf("dimension %d by %d: %d from rank %d", d, by, got[0], src)
			}
		}
	}
	return nil
}

func parts(cart *mpi.Cart, remain []bool) error {
	sub, err := cart.Sub(remain)
	if err != nil {
		return err
	}
	at, _ := cart.Coords(cart.Rank())
	mine, err := sub.Coords(sub.Rank())
	if err != nil {
		return err
	}
	var expect []int
	for d, x := range at {
		if remain[d] {
			expect = append(expect, x)
		}
	}
	return all(want("coordinates in the part", mine, expect), mpi.Barrier(sub.Comm), sub.Free())
}

// neighbours says to each neighbour who it is and in which direction it sends. It hears the opposite.
func neighbours(cart *mpi.Cart) error {
	n := 2 * len(cart.Dims())
	type word struct{ From, Direction int }
	send, recv, expect := make([]word, n), make([]word, n), make([]word, n)
	for i := range send {
		send[i], recv[i] = word{cart.Rank(), i}, word{-1, -1}
		src, _, err := cart.Shift(i/2, 1-i%2*2)
		if err != nil {
			return err
		}
		if expect[i] = (word{src, i ^ 1}); src == mpi.ProcNull {
			expect[i] = word{-1, -1}
		}
	}
	if err := all(mpi.NeighborAlltoall(cart, send, recv), want("NeighborAlltoall", recv, expect)); err != nil {
		return err
	}
	one := make([]int, n)
	for i := range one {
		one[i] = 1
		recv[i] = word{-1, -1}
	}
	if err := all(mpi.NeighborAlltoallv(cart, send, one, nil, recv, one, nil), want("NeighborAlltoallv", recv, expect)); err != nil {
		return err
	}
	ranks, from := make([]int, n), make([]int, n)
	for i := range ranks {
		ranks[i], from[i] = -1, expect[i].From
	}
	if err := all(mpi.NeighborAllgather(cart, []int{cart.Rank()}, ranks), want("NeighborAllgather", ranks, from)); err != nil {
		return err
	}
	if err := all(mpi.NeighborAllgatherv(cart, []int{cart.Rank()}, ranks, one, nil), want("NeighborAllgatherv", ranks, from)); err != nil {
		return err
	}
	out, in := singles(send), singles(recv)
	clear := func() {
		for i := range recv {
			recv[i], ranks[i] = word{-1, -1}, -1
		}
	}
	clear()
	if err := all(mpi.NeighborAlltoallw(cart, out, in), want("NeighborAlltoallw", recv, expect)); err != nil {
		return err
	}
	me := []int{cart.Rank()}
	words := func() error { return want("in flight", recv, expect) }
	numbers := func() error { return want("in flight", ranks, from) }
	return all(
		inBothForms("NeighborAlltoall", clear, words, func() (mpi.Request, error) { return mpi.IneighborAlltoall(cart, send, recv) },
			func() (*mpi.Persistent, error) { return mpi.NeighborAlltoallInit(cart, send, recv) }),
		inBothForms("NeighborAlltoallv", clear, words, func() (mpi.Request, error) { return mpi.IneighborAlltoallv(cart, send, one, nil, recv, one, nil) },
			func() (*mpi.Persistent, error) {
				return mpi.NeighborAlltoallvInit(cart, send, one, nil, recv, one, nil)
			}),
		inBothForms("NeighborAlltoallw", clear, words, func() (mpi.Request, error) { return mpi.IneighborAlltoallw(cart, out, in) },
			func() (*mpi.Persistent, error) { return mpi.NeighborAlltoallwInit(cart, out, in) }),
		inBothForms("NeighborAllgather", clear, numbers, func() (mpi.Request, error) { return mpi.IneighborAllgather(cart, me, ranks) },
			func() (*mpi.Persistent, error) { return mpi.NeighborAllgatherInit(cart, me, ranks) }),
		inBothForms("NeighborAllgatherv", clear, numbers, func() (mpi.Request, error) { return mpi.IneighborAllgatherv(cart, me, ranks, one, nil) },
			func() (*mpi.Persistent, error) { return mpi.NeighborAllgathervInit(cart, me, ranks, one, nil) }))
}

// singles are views of one element each.
func singles[T any](p []T) []mpi.View[T] {
	all := make([]mpi.View[T], len(p))
	for i := range p {
		all[i] = mpi.View[T]{p, mpi.Contiguous(1).Shift(i)}
	}
	return all
}

// inBothForms makes a call in the form that ends later, and three times in the persistent one.
func inBothForms(name string, clear func(), check func() error, begin func() (mpi.Request, error), init func() (*mpi.Persistent, error)) error {
	clear()
	p, err := init()
	if err := all(waited(begin()), check(), err); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for range 3 {
		clear()
		if err := all(waited(p.Start()), check()); err != nil {
			return fmt.Errorf("%sInit: %w", name, err)
		}
	}
	return p.Free()
}

// Whatever the edges of a graph are, several between two ranks and loops, messages go along them in order.
func TestGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "ranks")
		edges := rapid.SliceOfN(rapid.IntRange(0, n*n-1), 0, 12).Draw(rt, "edges")
		from, to := make([][]int, n), make([][]int, n)
		for _, e := range edges {
			from[e%n], to[e/n] = append(from[e%n], e/n), append(to[e/n], e%n)
		}
		mpitest.Run(drawn{t, rt}, n, func(c *mpi.Comm) error {
			me := c.Rank()
			g, err := c.DistGraph(from[me], to[me], &mpi.Weights{Sources: from[me], Dests: to[me]})
			if err != nil {
				return err
			}
			send, recv, expect := make([]int, len(to[me])), make([]int, len(from[me])), make([]int, len(from[me]))
			seen := map[int]int{}
			for j, r := range to[me] {
				send[j] = 100*me + seen[r]
				seen[r]++
			}
			seen = map[int]int{}
			for i, r := range from[me] {
				expect[i] = 100*r + seen[r]
				seen[r]++
			}
			forget := func() { clear(recv) }
			along := func() error { return want("along the edges", recv, expect) }
			return all(mpi.NeighborAlltoall(g, send, recv), along(), inBothForms("NeighborAlltoall", forget, along,
				func() (mpi.Request, error) { return mpi.IneighborAlltoall(g, send, recv) },
				func() (*mpi.Persistent, error) { return mpi.NeighborAlltoallInit(g, send, recv) }), g.Free())
		})
	})
}

// An edge that only one end tells fails the call on all ranks.
func TestGraphsDiffer(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		var to []int
		if c.Rank() == 1 {
			to = []int{2}
		}
		_, err := c.DistGraph(nil, to, nil)
		return all(wantErr("the graph", err, mpi.ErrMismatch), mpi.Barrier(c))
	})
}

// After an exchange every ghost cell holds what the whole array has at that place.
func TestHalo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, points := drawGrid(rt)
		width := rapid.IntRange(1, 2).Draw(rt, "width")
		corners := rapid.Bool().Draw(rt, "corners")
		inner := make([]int, len(g.dims))
		for d := range inner {
			inner[d] = rapid.IntRange(width, width+2).Draw(rt, "part")
		}
		mpitest.Run(drawn{t, rt}, points, func(c *mpi.Comm) error {
			cart, err := c.Cart(g.dims, g.periodic, false)
			if err != nil {
				return err
			}
			return all(haloIsWhole(cart, inner, width, corners), cart.Free())
		})
	})
}

func haloIsWhole(cart *mpi.Cart, inner []int, width int, corners bool) error {
	dims, size := make([]int, len(inner)), 1
	for d := range dims {
		dims[d] = inner[d] + 2*width
		size *= dims[d]
	}
	at, err := cart.Coords(cart.Rank())
	if err != nil {
		return err
	}
	field, expect := make([]int32, size), make([]int32, size)
	for i := range field {
		value, outside, beyond := int32(1), 0, false
		for d, rest := len(dims)-1, i; d >= 0; d-- {
			x := rest%dims[d] - width
			rest /= dims[d]
			if x < 0 || x >= inner[d] {
				outside++
			}
			n := cart.Dims()[d] * inner[d]
			place := at[d]*inner[d] + x
			beyond = beyond || (place < 0 || place >= n) && !cart.Periodic()[d]
			value = value*31 + int32((place+n)%n)
		}
		switch {
		case outside == 0:
			field[i], expect[i] = value, value
		case beyond || outside > 1 && !corners:
			field[i], expect[i] = -1, -1
		default:
			field[i], expect[i] = -2, value
		}
	}
	halo, err := mpi.NewHalo(cart, field, dims, width, corners)
	if err != nil {
		return err
	}
	if err := all(halo.Exchange(), halo.Exchange(), want("field", field, expect)); err != nil {
		return err
	}
	for range 2 { // whatever ghost cells of the grid itself hold, they come anew
		for i, x := range expect {
			if field[i] = x; ghost(i, dims, width) && x != -1 {
				field[i] = -2
			}
		}
		r, err := halo.Start()
		if err != nil {
			return err
		}
		_, err = r.Wait()
		if err := all(err, want("field in flight", field, expect)); err != nil {
			return err
		}
	}
	return nil
}

// ghost reports whether an element of a field is a ghost cell.
func ghost(i int, dims []int, width int) bool {
	for d := len(dims) - 1; d >= 0; d-- {
		if x := i % dims[d]; x < width || x >= dims[d]-width {
			return true
		}
		i /= dims[d]
	}
	return false
}

// One exchange of a Halo is under way at a time, and a rank that tries another one alone fails it on all.
func TestHaloUnderWay(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		ring, err := c.Cart([]int{3}, []bool{true}, false)
		if err != nil {
			return err
		}
		halo, err := mpi.NewHalo(ring, make([]int, 3), []int{3}, 1, false)
		if err != nil {
			return err
		}
		r, err := halo.Start()
		if err != nil {
			return err
		}
		_, again := halo.Start()
		if err := all(wantErr("Start", again, mpi.ErrRequest), wantErr("Exchange", halo.Exchange(), mpi.ErrRequest)); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		if r, err = halo.Start(); err != nil {
			return err
		}
		if c.Rank() == 1 {
			err = wantErr("alone", halo.Exchange(), mpi.ErrRequest)
			_, _ = r.Wait() // may be over, or have failed with all else
			return err
		}
		if _, err := r.Wait(); err == nil && halo.Exchange() == nil {
			return fmt.Errorf("an exchange without rank 1")
		}
		return nil
	})
}

// Ranks in a grid get other numbers only where that brings neighbours together.
func TestReorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, points := drawGrid(t)
		nodes := rapid.SliceOfN(rapid.IntRange(0, 3), points, points).Draw(t, "nodes")
		at := mpi.Arrange(g.dims, g.periodic, nodes)
		sorted := slices.Sorted(slices.Values(at))
		for i := range sorted {
			if sorted[i] != i {
				t.Fatalf("%v is no permutation", at)
			}
		}
		same := values2(points, func(i int) int { return i })
		if mpi.Crossings(g.dims, g.periodic, nodes, at) > mpi.Crossings(g.dims, g.periodic, nodes, same) {
			t.Fatalf("%v on nodes %v: %v is worse than nothing", g, nodes, at)
		}
	})
	// 64 ranks, 16 on each of four nodes, in a plane and in a cube.
	nodes := values2(64, func(r int) int { return r / 16 })
	for _, x := range []struct {
		dims          []int
		before, after int
	}{{[]int{8, 8}, 24, 16}, {[]int{4, 4, 4}, 48, 32}} {
		periodic := make([]bool, len(x.dims))
		before := mpi.Crossings(x.dims, periodic, nodes, values2(64, func(i int) int { return i }))
		after := mpi.Crossings(x.dims, periodic, nodes, mpi.Arrange(x.dims, periodic, nodes))
		if before != x.before || after != x.after {
			t.Errorf("%v: %d pairs of neighbours on different nodes, %d with reorder", x.dims, before, after)
		}
	}
}

// A communicator that is reordered is one of the same ranks.
func TestReorderedCart(t *testing.T) {
	mpitest.Run(t, 8, func(c *mpi.Comm) error {
		if err := mpi.SetChoice(c, nil, []int{0, 0, 0, 0, 1, 1, 1, 1}); err != nil {
			return err
		}
		cart, err := c.Cart([]int{2, 4}, []bool{false, false}, true)
		if err != nil {
			return err
		}
		order, err := mpi.AllgatherObjects(c, cart.Rank())
		return all(err, want("ranks", order, []int{0, 1, 4, 5, 2, 3, 6, 7}), coordinates(cart), neighbours(cart), cart.Free())
	})
}

// A part without neighbours in a dimension may be thinner there than its ghost cells.
func TestThinHalo(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		for _, around := range []bool{false, true} {
			grid, err := c.Cart([]int{1, 2}, []bool{around, false}, false)
			if err != nil {
				return err
			}
			field := make([]int, 5*6) // of its own: one row, two columns
			field[14], field[15] = 10*c.Rank()+1, 10*c.Rank()+2
			halo, err := mpi.NewHalo(grid, field, []int{5, 6}, 2, true)
			if around {
				return wantErr("a neighbour above", err, mpi.ErrDims)
			}
			if err := all(err, halo.Exchange(), grid.Free()); err != nil {
				return err
			}
			expect := []int{0, 0, 1, 2, 11, 12}
			if c.Rank() == 1 {
				expect = []int{1, 2, 11, 12, 0, 0}
			}
			if err := want("the row", field[12:18], expect); err != nil {
				return err
			}
		}
		return nil
	})
}
