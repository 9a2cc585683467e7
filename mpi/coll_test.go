package mpi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// affine is x -> A*x + B modulo a prime: composing such maps is associative and
// not commutative, so that its reduction tells the order of ranks.
type affine struct{ A, B uint64 }

const prime = 1_000_003

func compose(f, g affine) affine { // first f, then g
	return affine{f.A * g.A % prime, (f.B*g.A + g.B) % prime}
}

var composition = mpi.OpFunc(func(dst, src []affine) {
	for i := range dst {
		dst[i] = compose(dst[i], src[i])
	}
}, false)

// mix is an associative, commutative operator.
var mix = mpi.OpFunc(func(dst, src []affine) {
	for i := range dst {
		dst[i] = affine{(dst[i].A + src[i].A) % prime, dst[i].B * src[i].B % prime}
	}
}, true)

// of is rank r's element i.
func of(r, i int) affine {
	x := uint64(r+1)*7919 + uint64(i)*104729
	return affine{x%(prime-1) + 1, x * 31 % prime}
}

func mine(r, n int) []affine { return values2(n, func(i int) affine { return of(r, i) }) }

func values2[T any](n int, f func(int) T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

// model combines the contributions of ranks lo..hi-1, one after the other.
func model(lo, hi, n int, op mpi.Op[affine]) []affine {
	acc := mine(lo, n)
	for r := lo + 1; r < hi; r++ {
		op().Apply(acc, mine(r, n))
	}
	return acc
}

// lengths are small ones, and some that take every algorithm for long messages.
var lengths = rapid.OneOf(rapid.IntRange(0, 20), rapid.SampledFrom([]int{256, 1001, 2048, 4099, 9001}))

func ranks(t *rapid.T) int { return rapid.IntRange(1, 9).Draw(t, "ranks") }

// property checks f on random numbers of ranks, with messages and through shared
// memory; on subcommunicators too.
func property(t *testing.T, draw func(t *rapid.T, n int) func(c *mpi.Comm) error) {
	rapid.Check(t, func(rt *rapid.T) {
		n := ranks(rt)
		f := draw(rt, n)
		table := rapid.SampledFrom(tables).Draw(rt, "table")
		mpitest.Run(drawn{t, rt}, n, func(c *mpi.Comm) error { return all(mpi.SetChoice(c, table, nil), f(c)) })
	})
}

// tables are the one that is built in, and those that use shared memory for
// everything.
var tables = []map[string]string{nil, shared(""), shared("@1k")}

// drawn is the test of one random case: it fails that case.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Helper()                      {}
func (d drawn) Errorf(f string, args ...any) { d.rt.Errorf(f, args...) }
func (d drawn) FailNow()                     { d.rt.FailNow() }

func operator(t *rapid.T) mpi.Op[affine] {
	if rapid.Bool().Draw(t, "commutative") {
		return mix
	}
	return composition
}

func TestBarrier(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		return func(world *mpi.Comm) error {
			return onComms(world, func(c *mpi.Comm) error {
				// Nobody leaves before rank 0, the last to enter, has spoken to all.
				if c.Rank() == 0 {
					for r := 1; r < c.Size(); r++ {
						if err := mpi.SendValue(c, r, r, 0); err != nil {
							return err
						}
					}
				}
				if err := mpi.Barrier(c); err != nil || c.Rank() == 0 {
					return err
				}
				_, _, err := mpi.RecvValue[int](c, 0, 0)
				return err
			})
		}
	})
}

func TestBcast(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, root := lengths.Draw(t, "length"), rapid.IntRange(0, n-1).Draw(t, "root")
		return func(world *mpi.Comm) error {
			return onComms(world, func(c *mpi.Comm) error {
				r := root % c.Size()
				buf := mine(c.Rank(), k)
				return all(mpi.Bcast(c, buf, r), want("Bcast", buf, mine(r, k)))
			})
		}
	})
}

func TestReduce(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, root, op := lengths.Draw(t, "length"), rapid.IntRange(0, n-1).Draw(t, "root"), operator(t)
		return func(world *mpi.Comm) error {
			return onComms(world, func(c *mpi.Comm) error {
				r := root % c.Size()
				ranks := worldRanks(c)
				expect := modelOf(ranks, k, op)
				send := mine(c.WorldRank(c.Rank()), k)
				var recv []affine
				if c.Rank() == r {
					recv = make([]affine, k)
				}
				if err := mpi.Reduce(c, send, recv, op, r); err != nil {
					return err
				}
				inPlace := slices.Clone(send)
				if err := mpi.ReduceInPlace(c, inPlace, op, r); err != nil {
					return err
				}
				if c.Rank() != r {
					return want("ReduceInPlace elsewhere", inPlace, send)
				}
				return all(want("Reduce", recv, expect), want("ReduceInPlace", inPlace, expect))
			})
		}
	})
}

func worldRanks(c *mpi.Comm) []int { return values2(c.Size(), c.WorldRank) }

// modelOf combines the contributions of some ranks of the world, in order.
func modelOf(ranks []int, n int, op mpi.Op[affine]) []affine {
	acc := mine(ranks[0], n)
	for _, r := range ranks[1:] {
		op().Apply(acc, mine(r, n))
	}
	return acc
}

func TestAllreduce(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, op := lengths.Draw(t, "length"), operator(t)
		return func(world *mpi.Comm) error {
			return onComms(world, func(c *mpi.Comm) error {
				send := mine(c.WorldRank(c.Rank()), k)
				recv := make([]affine, k)
				if err := mpi.Allreduce(c, send, recv, op); err != nil {
					return err
				}
				if err := mpi.AllreduceInPlace(c, send, op); err != nil {
					return err
				}
				expect := modelOf(worldRanks(c), k, op)
				return all(want("Allreduce", recv, expect), want("AllreduceInPlace", send, expect))
			})
		}
	})
}

func TestScan(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, op := lengths.Draw(t, "length"), operator(t)
		return func(c *mpi.Comm) error {
			me := c.Rank()
			send := mine(me, k)
			in, ex, inPlace, exPlace := make([]affine, k), make([]affine, k), slices.Clone(send), slices.Clone(send)
			if err := all(mpi.Scan(c, send, in, op), mpi.Exscan(c, send, ex, op), mpi.ScanInPlace(c, inPlace, op), mpi.ExscanInPlace(c, exPlace, op)); err != nil {
				return err
			}
			expect := model(0, me+1, k, op)
			err := all(want("Scan", in, expect), want("ScanInPlace", inPlace, expect))
			if me == 0 {
				return all(err, want("Exscan", ex, make([]affine, k)), want("ExscanInPlace", exPlace, send))
			}
			expect = model(0, me, k, op)
			return all(err, want("Exscan", ex, expect), want("ExscanInPlace", exPlace, expect))
		}
	})
}

func TestReduceScatter(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, op := lengths.Draw(t, "length"), operator(t)
		counts := values2(n, func(int) int { return rapid.IntRange(0, 300).Draw(t, "count") })
		return func(c *mpi.Comm) error {
			me := c.Rank()
			send := mine(me, n*k)
			got := make([]affine, k)
			if err := mpi.ReduceScatterBlock(c, send, got, op); err != nil {
				return err
			}
			if err := mpi.ReduceScatterBlockInPlace(c, send, op); err != nil {
				return err
			}
			expect := model(0, n, n*k, op)[me*k : (me+1)*k]
			if err := all(want("ReduceScatterBlock", got, expect), want("ReduceScatterBlockInPlace", send[:k], expect)); err != nil {
				return err
			}
			starts, total := displacements(counts)
			send = mine(me, total)
			got = make([]affine, counts[me])
			if err := mpi.ReduceScatter(c, send, got, counts, op); err != nil {
				return err
			}
			if err := mpi.ReduceScatterInPlace(c, send, counts, op); err != nil {
				return err
			}
			if total == 0 {
				return nil
			}
			expect = model(0, n, total, op)[starts[me] : starts[me]+counts[me]]
			return all(want("ReduceScatter", got, expect), want("ReduceScatterInPlace", send[:counts[me]], expect))
		}
	})
}

// displacements returns where adjacent blocks start, and their total.
func displacements(counts []int) (starts []int, total int) {
	for _, k := range counts {
		starts = append(starts, total)
		total += k
	}
	return starts, total
}

// The operators, element by element, on every kind of number they are for.
func TestOperators(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		r := c.Rank()
		f := float64(r)
		return all(
			reduces(c, "Sum", []int16{int16(r), 5}, mpi.Sum[int16], []int16{3, 15}),
			reduces(c, "Sum", []complex64{complex(float32(r), 1)}, mpi.Sum[complex64], []complex64{complex(3, 3)}),
			reduces(c, "Prod", []float32{float32(r + 1)}, mpi.Prod[float32], []float32{6}),
			reduces(c, "Max", []int{r, -r}, mpi.Max[int], []int{2, 0}),
			reduces(c, "Min", []uint8{uint8(r + 3)}, mpi.Min[uint8], []uint8{3}),
			reduces(c, "LAnd", []bool{true, r != 1}, mpi.LAnd[bool], []bool{true, false}),
			reduces(c, "LOr", []bool{false, r == 1}, mpi.LOr[bool], []bool{false, true}),
			reduces(c, "LXor", []bool{true, r != 1}, mpi.LXor[bool], []bool{true, false}),
			reduces(c, "BAnd", []uint32{7, 1 << r}, mpi.BAnd[uint32], []uint32{7, 0}),
			reduces(c, "BOr", []int64{1 << r}, mpi.BOr[int64], []int64{7}),
			reduces(c, "BXor", []uint{3, uint(r)}, mpi.BXor[uint], []uint{3, 3}),
			reduces(c, "MaxLoc", []mpi.ValueLoc[float64]{{f, r}, {1, r}}, mpi.MaxLoc[float64], []mpi.ValueLoc[float64]{{2, 2}, {1, 0}}),
			reduces(c, "MinLoc", []mpi.ValueLoc[int]{{-r, r}, {1, r}}, mpi.MinLoc[int], []mpi.ValueLoc[int]{{-2, 2}, {1, 0}}),
		)
	})
}

func reduces[T comparable](c *mpi.Comm, name string, send []T, op mpi.Op[T], expect []T) error {
	recv := make([]T, len(send))
	if !op().Commutative() {
		return fmt.Errorf("%s says it is not commutative", name)
	}
	return all(mpi.Allreduce(c, send, recv, op), want(name, recv, expect))
}

// Sums of floating-point numbers are the same bits in every run and rank.
func TestReductionsAreDeterministic(t *testing.T) {
	for _, k := range []int{3, 20_000} {
		for _, n := range []int{3, 4, 7} {
			var first []float64
			for i := range 6 {
				sums := make([][]float64, n)
				mpitest.Run(t, n, func(c *mpi.Comm) error {
					if err := mpi.SetChoice(c, tables[i%len(tables)], nil); err != nil {
						return err
					}
					send := values(k, c.Rank()+1, func(i int) float64 { return 1 / float64(i+3) })
					sums[c.Rank()] = make([]float64, k)
					return mpi.Allreduce(c, send, sums[c.Rank()], mpi.Sum)
				})
				if first == nil {
					first = sums[0]
				}
				for r := range sums {
					if err := want(fmt.Sprintf("rank %d", r), sums[r], first); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
