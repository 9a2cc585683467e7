package main

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Every rank gets a row, and none much more than its share of the nonzeros.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 300).Draw(t, "weights")
		n := len(weights)
		size := rapid.IntRange(1, n).Draw(t, "size")
		starts, err := partition(n, size, func(i int) int { return weights[i] })
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
	if _, err := partition(3, 4, func(int) int { return 1 }); err == nil {
		t.Error("4 ranks for 3 rows were accepted")
	}
}

func TestPoisson(t *testing.T) {
	p := poisson(4)
	b := p.block(0, p.rows())
	for i := range p.rows() {
		if got := b.ptr[i+1] - b.ptr[i]; got != p.nonzeros(i) {
			t.Errorf("row %d has %d entries, nonzeros says %d", i, got, p.nonzeros(i))
		}
	}
	// A corner has 7 neighbours, an inner point 26: HPCG's counts.
	if p.nonzeros(0) != 8 || p.nonzeros((1*4+1)*4+1) != 27 {
		t.Errorf("corner has %d entries, inner point %d; want 8 and 27", p.nonzeros(0), p.nonzeros(21))
	}
	d, err := b.diagonal()
	if err != nil || d[5] != 26 {
		t.Errorf("diagonal %v, %v", d[5], err)
	}
	// A block of some rows is the same rows of the whole.
	some, part := p.block(10, 30), b.part(10, 30)
	for i := range some.ptr {
		if some.ptr[i] != part.ptr[i] {
			t.Fatalf("row %d starts at %d and %d", i, some.ptr[i], part.ptr[i])
		}
	}
	for k := range some.col {
		if some.col[k] != part.col[k] || some.val[k] != part.val[k] {
			t.Fatalf("entry %d differs", k)
		}
	}
}

func TestDiagonalRefuses(t *testing.T) {
	for _, text := range []string{
		"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1\n2 1 1\n",
		"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1\n2 2 -1\n",
	} {
		b, err := readMatrix(bytes.NewReader([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.diagonal(); err == nil {
			t.Errorf("accepted as positive definite: %s", text)
		}
	}
}
