package mpi_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// odd are numbers of which several have the same value and other bits, or no value.
var odd = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1),
	math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0xfff8000000000002), math.Float64frombits(0x7ff800000000000c), math.NaN()}

// contributions has k odd numbers for each of n ranks. All ranks draw the same.
func contributions(t *rapid.T, n, k int) []float64 {
	return rapid.SliceOfN(rapid.SampledFrom(odd), n*k, n*k).Draw(t, "contributions")
}

func rawBytes[T any](p []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(p))), len(p)*int(unsafe.Sizeof(z)))
}

// sameBits combines send on all ranks in all ways, and compares the results of all ranks bit by bit.
func sameBits[T any](c *mpi.Comm, what string, send []T, op mpi.Op[T]) error {
	for _, way := range []struct {
		name string
		call func(recv []T) error
	}{
		{"Allreduce", func(recv []T) error { return mpi.Allreduce(c, send, recv, op) }},
		{"AllreduceInPlace", func(recv []T) error {
			copy(recv, send)
			return mpi.AllreduceInPlace(c, recv, op)
		}},
		{"Iallreduce", func(recv []T) error {
			r, err := mpi.Iallreduce(c, send, recv, op)
			if err == nil {
				_, err = r.Wait()
			}
			return err
		}},
	} {
		recv := make([]T, len(send))
		if err := way.call(recv); err != nil {
			return err
		}
		mine := rawBytes(recv)
		all := make([]byte, len(mine)*c.Size())
		if err := mpi.Allgather(c, mine, all); err != nil {
			return err
		}
		for r := range c.Size() {
			if theirs := all[r*len(mine):][:len(mine)]; !bytes.Equal(theirs, all[:len(mine)]) {
				return fmt.Errorf("%s(%s) of %T: rank 0 has %x, rank %d %x", way.name, what, send, all[:len(mine)], r, theirs)
			}
		}
	}
	return nil
}

// oddOnes calls sameBits for all types and operators to which the order of operands may make a difference.
func oddOnes(c *mpi.Comm, mine []float64) error {
	short, wide, located := make([]float32, len(mine)), make([]complex128, len(mine)), make([]mpi.ValueLoc[float64], len(mine))
	for i, x := range mine {
		short[i] = math.Float32frombits(uint32(math.Float64bits(x)>>32)&0xffc00000 | uint32(math.Float64bits(x))&0xff)
		wide[i] = complex(x, mine[len(mine)-1-i])
		located[i] = mpi.ValueLoc[float64]{Value: x, Loc: i % 2}
	}
	return all(sameBits(c, "Sum", mine, mpi.Sum), sameBits(c, "Prod", mine, mpi.Prod), sameBits(c, "Max", mine, mpi.Max), sameBits(c, "Min", mine, mpi.Min),
		sameBits(c, "Sum", short, mpi.Sum), sameBits(c, "Prod", short, mpi.Prod), sameBits(c, "Max", short, mpi.Max),
		sameBits(c, "Sum", wide, mpi.Sum), sameBits(c, "Prod", wide, mpi.Prod),
		sameBits(c, "MaxLoc", located, mpi.MaxLoc), sameBits(c, "MinLoc", located, mpi.MinLoc))
}

// All ranks get the same bits of Allreduce, also where these are NaNs or zeros of either sign: by every algorithm, on
// any number of ranks.
func TestAllreduceSameBits(t *testing.T) {
	algorithms := []string{"", "shared", "shared@1k"}
	for _, c := range coll.Collectives {
		if c.Name == "allreduce" {
			for _, a := range c.Algorithms {
				algorithms = append(algorithms, a.String())
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(rt, "ranks")
		if rapid.Bool().Draw(rt, "two") {
			n = 2
		}
		k := rapid.SampledFrom([]int{1, 3, 40, 300}).Draw(rt, "elements")
		numbers := contributions(rt, n, k)
		hosts := places(n)[rapid.IntRange(0, 2).Draw(rt, "places")]
		choice := map[string]string{}
		if a := rapid.SampledFrom(algorithms).Draw(rt, "algorithm"); a != "" {
			choice[coll.Prefix+"allreduce"] = a
		}
		mpitest.Run(t, n, func(c *mpi.Comm) error {
			if err := mpi.SetChoice(c, choice, hosts); err != nil {
				return err
			}
			if err := oddOnes(c, numbers[c.Rank()*k:][:k]); err != nil {
				return fmt.Errorf("%v on %d ranks, nodes %v: %w", choice, n, hosts, err)
			}
			return nil
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}
