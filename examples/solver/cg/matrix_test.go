package cg

import (
	"testing"

	"pgregory.net/rapid"
)

// Every rank gets a row, and none much more than its share of the nonzeros.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 300).Draw(t, "weights")
		n := len(weights)
		size := rapid.IntRange(1, n).Draw(t, "size")
		starts, err := Partition(n, size, func(i int) int { return weights[i] })
		if err != nil {
			t.Fatal(err)
		}
		total, heaviest := 0, 0
		for _, w := range weights {
			total += w
			heaviest = max(heaviest, w)
		}
		if starts[0] != 0 || starts[size] != n {
			t.Fatalf("starts %v do not cover 0..%d", starts, n)
		}
		for r := range size {
			part := 0
			if starts[r] >= starts[r+1] {
				t.Fatalf("rank %d has no row: %v", r, starts)
			}
			for i := starts[r]; i < starts[r+1]; i++ {
				part += weights[i]
			}
			if starts[r+1]-starts[r] > 1 && part > total/size+2*heaviest+1 {
				t.Fatalf("rank %d has %d of %d nonzeros on %d ranks: %v", r, part, total, size, starts)
			}
		}
	})
}

func TestPartitionRefusesTooManyRanks(t *testing.T) {
	if _, err := Partition(3, 4, func(int) int { return 1 }); err == nil {
		t.Error("4 ranks for 3 rows were accepted")
	}
}

func TestPoisson(t *testing.T) {
	p := Poisson(4)
	b := p.Block(0, p.Rows())
	for i := range p.Rows() {
		if got := b.Ptr[i+1] - b.Ptr[i]; got != p.Nonzeros(i) {
			t.Errorf("row %d has %d entries, nonzeros says %d", i, got, p.Nonzeros(i))
		}
	}
	// A corner has 7 neighbours, an inner point 26: HPCG's counts.
	if p.Nonzeros(0) != 8 || p.Nonzeros((1*4+1)*4+1) != 27 {
		t.Errorf("corner has %d entries, inner point %d; want 8 and 27", p.Nonzeros(0), p.Nonzeros(21))
	}
	d, err := b.diagonal()
	if err != nil || d[5] != 26 {
		t.Errorf("diagonal %v, %v", d[5], err)
	}
	// A block of some rows is the same rows of the whole.
	some, part := p.Block(10, 30), b.Part(10, 30)
	for i := range some.Ptr {
		if some.Ptr[i] != part.Ptr[i] {
			t.Fatalf("row %d starts at %d and %d", i, some.Ptr[i], part.Ptr[i])
		}
	}
	for k := range some.Col {
		if some.Col[k] != part.Col[k] || some.Val[k] != part.Val[k] {
			t.Fatalf("entry %d differs", k)
		}
	}
}

func TestDiagonalRefuses(t *testing.T) {
	for _, b := range []Block{
		{N: 2, Ptr: []int{0, 2, 3}, Col: []int32{0, 1, 0}, Val: []float64{1, 1, 1}},
		{N: 2, Ptr: []int{0, 1, 2}, Col: []int32{0, 1}, Val: []float64{1, -1}},
	} {
		if _, err := b.diagonal(); err == nil {
			t.Errorf("accepted as positive definite: %v", b)
		}
	}
}
