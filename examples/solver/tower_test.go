package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write tower.mtx anew")

// The matrix that is built into the solver: the stiffness of a free-standing
// lattice tower of steel, 40 m high, square, 4 m wide at the foot and 1 m at
// the top, of 20 storeys. Every storey has four legs, two crossed diagonals in
// each face, four horizontals at its top and one bar across, against torsion.
// All joints are pinned, and the foot is fixed, which leaves 80 joints with
// three displacements each. The units are N/m.
const (
	storeys  = 20
	height   = 40.0
	foot     = 4.0
	head     = 1.0
	young    = 210e9  // steel, Pa
	legArea  = 5.0e-3 // m2
	barArea  = 1.5e-3
	joints   = 4 * (storeys + 1)
	freedoms = 3 * 4 * storeys
)

// joint returns the place of corner k (0..3) on top of storey s (0: the foot).
func joint(s, k int) [3]float64 {
	half := (foot + float64((head-foot)*float64(s)/storeys)) / 2
	x, y := half, half
	if k == 1 || k == 2 {
		x = -half
	}
	if k == 2 || k == 3 {
		y = -half
	}
	return [3]float64{x, y, height * float64(s) / storeys}
}

// stiffness assembles the matrix, lower triangle, from the tower's bars.
func stiffness() map[[2]int]float64 {
	m := make(map[[2]int]float64)
	bar := func(s1, k1, s2, k2 int, area float64) {
		a, b := joint(s1, k1%4), joint(s2, k2%4)
		var d [3]float64
		square := 0.0
		for i := range d {
			d[i] = b[i] - a[i]
			square += float64(d[i] * d[i])
		}
		length := math.Sqrt(square)
		ends := [2]int{3 * (4*(s1-1) + k1%4), 3 * (4*(s2-1) + k2%4)} // first freedom, negative: fixed
		for p, from := range ends {
			for q, to := range ends {
				if from < 0 || to < 0 {
					continue
				}
				sign := 1.0
				if p != q {
					sign = -1
				}
				for i := range d {
					for j := range d {
						k := float64(sign * young * area / length * (d[i] / length) * (d[j] / length))
						if row, col := from+i, to+j; row >= col && k != 0 {
							m[[2]int{row, col}] += k
						}
					}
				}
			}
		}
	}
	for s := 1; s <= storeys; s++ {
		for k := range 4 {
			bar(s-1, k, s, k, legArea)
			bar(s-1, k, s, k+1, barArea)
			bar(s-1, k+1, s, k, barArea)
			bar(s, k, s, k+1, barArea)
		}
		bar(s, 0, s, 2, barArea)
	}
	return m
}

// The built-in file is what the tower's bars say.
func TestTower(t *testing.T) {
	m := stiffness()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%%%%MatrixMarket matrix coordinate real symmetric\n")
	fmt.Fprintf(&text, "%% stiffness matrix of a steel lattice tower of %d storeys, foot fixed, N/m (tower_test.go)\n", storeys)
	fmt.Fprintf(&text, "%d %d %d\n", freedoms, freedoms, len(m))
	for col := range freedoms {
		for row := col; row < freedoms; row++ {
			if v, ok := m[[2]int{row, col}]; ok {
				fmt.Fprintf(&text, "%d %d %v\n", row+1, col+1, v)
			}
		}
	}
	if *update {
		if err := os.WriteFile("tower.mtx", text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(text.Bytes(), tower) && !*update {
		t.Error("tower.mtx is not the tower's matrix; go test -update writes it anew")
	}
}
