package main

import (
	"io"
	"math"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"pgregory.net/rapid"
)

func program(n, steps int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return lulesh(c, n, steps, out) }
}

// Steps and energy are the published ones, however the cube is divided.
func TestLulesh(t *testing.T) {
	apptest.Succeeds(t, program(5, math.MaxInt), 1, 2, 3, 8, 12)
	apptest.Succeeds(t, program(3, 20), 1, 4)
}

func TestLarge(t *testing.T) { apptest.Large(t, program(30, math.MaxInt), 1, 4, 8) }

func TestRestart(t *testing.T) { apptest.Restarts(t, program(5, 40), 4, 23) }

// The change of a volume with the places of the nodes, and its rate of growth, are those of the volume.
func TestVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-.2, .2)
		var h, v hexahedron
		for k := range h {
			bent := vec{number.Draw(t, "x"), number.Draw(t, "y"), number.Draw(t, "z")}
			h[k] = vec{float64(corner(k, 0)), float64(corner(k, 1)), float64(corner(k, 2))}.add(bent)
			v[k] = vec{number.Draw(t, "u"), number.Draw(t, "v"), number.Draw(t, "w")}
		}
		const step = 1e-5
		later, sooner, rate := h, h, 0.0
		for k, by := range h.volumeChange() {
			later[k], sooner[k] = h[k].plus(step, v[k]), h[k].plus(-step, v[k])
			rate += by.dot(v[k])
		}
		if got := (later.volume() - sooner.volume()) / (2 * step); math.Abs(got-rate) > 1e-8 {
			t.Fatalf("the volume grows by %v, not by %v", got, rate)
		}
		stretch := v[0].X
		for k := range v {
			v[k] = h[k].times(stretch)
		}
		if got := h.divergence(&v); math.Abs(got-3*stretch) > 1e-9 {
			t.Fatalf("it grows by %v of its volume, not by %v", got, 3*stretch)
		}
	})
}

// A wave that is not round, and another end, are found.
func TestCheck(t *testing.T) {
	right := totals{330, published[5].origin, vec{1, 1, 1}}
	if wrong := check(5, 72, true, right); wrong != nil {
		t.Error(wrong)
	}
	for _, x := range []struct {
		steps int
		t     totals
	}{{71, right}, {72, totals{330, 7.8e3, right.moment}}, {72, totals{330, math.NaN(), right.moment}}, {72, totals{330, right.origin, vec{1, 1, 1.001}}},
		{72, totals{330, right.origin, vec{1, math.NaN(), 1}}}} {
		if check(5, x.steps, true, x.t) == nil {
			t.Errorf("%+v passes", x)
		}
	}
}
