package mpi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// variants are tables that together use every algorithm of every collective,
// whole and in segments.
func variants() []map[string]string {
	most := 0
	for _, c := range coll.Collectives {
		most = max(most, len(c.Algorithms))
	}
	all := []map[string]string{shared(""), shared("@1k")}
	for i := range most {
		v := map[string]string{}
		for _, c := range coll.Collectives {
			v[coll.Prefix+c.Name] = c.Algorithms[i%len(c.Algorithms)].String()
			if i%2 == 0 {
				v[coll.Prefix+c.Name] += "@1k"
			}
		}
		all = append(all, v)
	}
	return all
}

// shared is the table that uses memory that all ranks see wherever it can.
func shared(segment string) map[string]string {
	v := map[string]string{}
	for _, c := range coll.Collectives {
		if slices.Contains(c.Algorithms, coll.Shared) {
			v[coll.Prefix+c.Name] = coll.Shared.String() + segment
		}
	}
	return v
}

// places say on which node each of n ranks is: all on one, in blocks, by turns.
func places(n int) [][]int {
	one, blocks, turns := make([]int, n), make([]int, n), make([]int, n)
	for r := range n {
		blocks[r], turns[r] = r/3, 7+r%3
	}
	return [][]int{one, blocks, turns}
}

// Every algorithm gives the result of the plain loops of the model. The cases: any number of ranks; short and
// long buffers, of lengths that do not divide; operators that commute and one that does not; in place and not;
// communicators of some of the world's ranks in another order.
func TestAlgorithms(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 32, 64}
	if testing.Short() {
		sizes = []int{1, 2, 3, 5, 8}
	}
	for i, v := range variants() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for _, n := range sizes {
				hosts := places(n)[(i+n)%3]
				lengths := []int{0, 1, 5, 700}
				switch {
				case n > 32:
					lengths = []int{200}
				case n > 17:
					lengths = []int{3, 200}
				}
				mpitest.Run(t, n, func(world *mpi.Comm) error {
					if err := mpi.SetChoice(world, v, hosts); err != nil {
						return err
					}
					for _, k := range lengths {
						if err := everything(world, k); err != nil {
							return fmt.Errorf("%v, hosts %v, %d elements: %w", v, hosts, k, err)
						}
					}
					if n > 17 {
						return nil
					}
					return onComms(world, func(c *mpi.Comm) error { return everything(c, 11) })
				})
			}
		})
	}
}

// everything calls each collective with k elements, or blocks of so many.
func everything(c *mpi.Comm, k int) error {
	n, me := c.Size(), c.Rank()
	for _, root := range []int{0, n / 2, n - 1} {
		if err := all(rooted(c, k, root), mpi.Barrier(c)); err != nil {
			return fmt.Errorf("root %d: %w", root, err)
		}
	}
	for _, op := range []mpi.Op[affine]{mix, composition} {
		if err := reductions(c, k, op); err != nil {
			return fmt.Errorf("operator that commutes: %v: %w", op().Commutative(), err)
		}
	}
	whole := values2(n*k, func(i int) affine { return of(i/max(k, 1), i) })
	got, inPlace := make([]affine, n*k), make([]affine, n*k)
	copy(inPlace[me*k:], whole[me*k:(me+1)*k])
	if err := all(mpi.Allgather(c, whole[me*k:(me+1)*k], got), mpi.AllgatherInPlace(c, inPlace)); err != nil {
		return err
	}
	if err := all(want("Allgather", got, whole), want("AllgatherInPlace", inPlace, whole)); err != nil {
		return err
	}
	return all(exchanges(c, k), uneven(c, k))
}

// rooted calls the collectives that have a root.
func rooted(c *mpi.Comm, k, root int) error {
	n, me := c.Size(), c.Rank()
	buf := mine(me, k)
	if err := all(mpi.Bcast(c, buf, root), want("Bcast", buf, mine(root, k))); err != nil {
		return err
	}
	whole := values2(n*k, func(i int) affine { return of(root, i) })
	gathered, got := make([]affine, n*k), make([]affine, k)
	if err := all(mpi.Scatter(c, whole, got, root), want("Scatter", got, whole[me*k:(me+1)*k]), mpi.Gather(c, got, gathered, root)); err != nil {
		return err
	}
	if me == root {
		if err := want("Gather", gathered, whole); err != nil {
			return err
		}
	}
	for _, op := range []mpi.Op[affine]{mix, composition} {
		send, recv := mine(me, k), make([]affine, k)
		if err := mpi.Reduce(c, send, recv, op, root); err != nil {
			return err
		}
		inPlace := slices.Clone(send)
		if err := all(want("what Reduce has sent", send, mine(me, k)), mpi.ReduceInPlace(c, inPlace, op, root)); err != nil {
			return err
		}
		expect := model(0, n, k, op)
		if me != root {
			expect, recv = send, send
		}
		if err := all(want("Reduce", recv, expect), want("ReduceInPlace", inPlace, expect)); err != nil {
			return err
		}
	}
	return nil
}

// reductions calls those without a root.
func reductions(c *mpi.Comm, k int, op mpi.Op[affine]) error {
	n, me := c.Size(), c.Rank()
	send, recv := mine(me, k), make([]affine, k)
	inPlace := slices.Clone(send)
	if err := all(mpi.Allreduce(c, send, recv, op), mpi.AllreduceInPlace(c, inPlace, op)); err != nil {
		return err
	}
	expect := model(0, n, k, op)
	if err := all(want("what Allreduce has sent", send, mine(me, k)), want("Allreduce", recv, expect), want("AllreduceInPlace", inPlace, expect)); err != nil {
		return err
	}
	if err := all(mpi.Scan(c, send, recv, op), want("Scan", recv, model(0, me+1, k, op))); err != nil {
		return err
	}
	clear(recv)
	expect = recv
	if me > 0 {
		expect = model(0, me, k, op)
	}
	exPlace := slices.Clone(send)
	if err := all(mpi.Exscan(c, send, recv, op), want("Exscan", recv, expect), mpi.ExscanInPlace(c, exPlace, op)); err != nil {
		return err
	}
	if me > 0 {
		if err := want("ExscanInPlace", exPlace, expect); err != nil {
			return err
		}
	}
	send = mine(me, n*k)
	inPlace = slices.Clone(send)
	if err := all(mpi.ReduceScatterBlock(c, send, recv, op), mpi.ReduceScatterBlockInPlace(c, inPlace, op)); err != nil {
		return err
	}
	expect = model(0, n, n*k, op)[me*k : (me+1)*k]
	return all(want("what ReduceScatterBlock has sent", send, mine(me, n*k)),
		want("ReduceScatterBlock", recv, expect), want("ReduceScatterBlockInPlace", inPlace[:k], expect))
}

// exchanges calls those in which everybody has something for everybody.
func exchanges(c *mpi.Comm, k int) error {
	n, me := c.Size(), c.Rank()
	from := func(src, dst int) []affine { return values2(k, func(i int) affine { return of(src, dst*1000+i) }) }
	var send, expect []affine
	for r := range n {
		send = append(send, from(me, r)...)
		expect = append(expect, from(r, me)...)
	}
	got, inPlace := make([]affine, n*k), slices.Clone(send)
	if err := all(mpi.Alltoall(c, send, got), mpi.AlltoallInPlace(c, inPlace)); err != nil {
		return err
	}
	return all(want("Alltoall", got, expect), want("AlltoallInPlace", inPlace, expect))
}

// uneven calls those with blocks of different lengths, some of them empty.
func uneven(c *mpi.Comm, k int) error {
	n, me := c.Size(), c.Rank()
	counts := values2(n, func(r int) int { return (r * 7 % 3) * (k + r) })
	starts, total := displacements(counts)
	whole := mine(99, total)
	own := whole[starts[me] : starts[me]+counts[me]]
	got := make([]affine, total)
	if err := all(mpi.Allgatherv(c, own, got, counts, nil), want("Allgatherv", got, whole)); err != nil {
		return err
	}
	recv := make([]affine, counts[me])
	if err := mpi.ReduceScatter(c, mine(me, total), recv, counts, composition); err != nil {
		return err
	}
	if total > 0 {
		expect := model(0, n, total, composition)[starts[me] : starts[me]+counts[me]]
		if err := want("ReduceScatter", recv, expect); err != nil {
			return err
		}
	}
	// Rank r sends r+s elements to s.
	var send, expect []affine
	same := values2(n, func(r int) int { return me + r })
	for r := range n {
		send = append(send, mine(me, me+r)...)
		expect = append(expect, mine(r, me+r)...)
	}
	back := make([]affine, len(expect))
	return all(mpi.Alltoallv(c, send, same, nil, back, same, nil), want("Alltoallv", back, expect))
}

// plainFold is the order of combination that is promised: pairs among the first
// ranks where their number is no power of two, then a tree of neighbours.
func plainFold(all []float64) float64 {
	whole := 1
	for 2*whole <= len(all) {
		whole *= 2
	}
	var level []float64
	for extra := len(all) - whole; len(all) > 0; {
		if extra > 0 {
			level = append(level, all[0]+all[1])
			all, extra = all[2:], extra-1
			continue
		}
		level = append(level, all[0])
		all = all[1:]
	}
	for len(level) > 1 {
		for i := 0; i < len(level); i += 2 {
			level[i/2] = level[i] + level[i+1]
		}
		level = level[:len(level)/2]
	}
	return level[0]
}

// Sums of floating-point numbers are the same bits by every algorithm but Ring,
// of any root, and wherever the ranks are.
func TestReductionsAreTheSameBits(t *testing.T) {
	const k = 300
	number := func(r, i int) float64 { return 1 / float64(3+(r*31+i)%1009) }
	for _, n := range []int{2, 3, 5, 7, 8, 12} {
		expect := values2(n*k, func(i int) float64 {
			return plainFold(values2(n, func(r int) float64 { return number(r, i) }))
		})
		for i, v := range variants() {
			for name, rules := range v {
				if rules == "ring" || rules == "ring@1k" {
					delete(v, name)
				}
			}
			mpitest.Run(t, n, func(c *mpi.Comm) error {
				if err := mpi.SetChoice(c, v, places(n)[i%3]); err != nil {
					return err
				}
				me := c.Rank()
				send := values2(n*k, func(i int) float64 { return number(me, i) })
				recv := make([]float64, n*k)
				if err := all(mpi.Allreduce(c, send, recv, mpi.Sum), want("Allreduce", recv, expect)); err != nil {
					return fmt.Errorf("%v: %w", v, err)
				}
				root := n - 1
				if err := mpi.Reduce(c, send, recv, mpi.Sum, root); err != nil {
					return err
				}
				if me == root {
					if err := want("Reduce", recv, expect); err != nil {
						return fmt.Errorf("%v: %w", v, err)
					}
				}
				err := mpi.ReduceScatterBlock(c, send, recv[:k], mpi.Sum)
				return all(err, want("ReduceScatterBlock", recv[:k], expect[me*k:(me+1)*k]))
			})
		}
	}
}
