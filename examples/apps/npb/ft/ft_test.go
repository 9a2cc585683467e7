package main

import (
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nastest"
)

func TestVerify(t *testing.T)  { nastest.Verify(t, ft, 1, 2, 4) }
func TestRestart(t *testing.T) { nastest.Restart(t, ft, 4, 3) }
func TestRefused(t *testing.T) { nastest.Refused(t, ft, 3, "power of two") }

// The transforms are what their definition says, for one series and for more than are transformed together.
func TestTransform(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{4, 8, 32, 64} {
		for _, count := range []int{1, width + 3} {
			x := make([]complex128, n*count)
			for i := range x {
				x[i] = complex(r.Float64(), r.Float64())
			}
			f := newFFT(n)
			for direction := range 2 {
				got := append([]complex128(nil), x...)
				f.transform(got, direction, count, 1, count)
				for j := range count {
					for k := range n {
						var want complex128
						for l := range n {
							want += x[l*count+j] * f.roots[direction][k*l%n]
						}
						if cmplx.Abs(got[k*count+j]-want) > 1e-12*float64(n) {
							t.Fatalf("%d of %d numbers: number %d of series %d is %v, want %v", count, n, k, j, got[k*count+j], want)
						}
					}
				}
			}
		}
	}
}
