package main

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// serial is the same scheme on one array: the reference.
func serial(n, steps int) []float64 {
	w := n + 2
	now, next := make([]float64, w*w), make([]float64, w*w)
	for j := 1; j <= n; j++ {
		now[j], next[j] = hot, hot
	}
	for range steps {
		for i := 1; i <= n; i++ {
			for j := 1; j <= n; j++ {
				k := i*w + j
				around := (now[k-w] + now[k+w]) + (now[k-1] + now[k+1])
				next[k] = now[k] + float64(diffusion*(around-float64(4*now[k])))
			}
		}
		now, next = next, now
	}
	field := make([]float64, 0, n*n)
	for i := 1; i <= n; i++ {
		field = append(field, now[i*w+1:i*w+1+n]...)
	}
	return field
}

// Any number of ranks computes the same bits as the serial scheme.
func TestHeat(t *testing.T) {
	o := options{n: 21, steps: 200}
	want := fmt.Sprintf("result heat n=21 steps=200 digest=%s\n", digest(serial(o.n, o.steps)))
	for _, size := range []int{1, 2, 3, 5, 8, 12, 21} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var out bytes.Buffer
			mpitest.Run(t, size, func(c *mpi.Comm) error { return heat(c, o, &out) })
			if out.String() != want {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		})
	}
}

// The digest is the same on every architecture.
func TestDigestIsKnown(t *testing.T) {
	if got, want := digest(serial(16, 100)), "788363a2563f4ef9"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// In the end the plate is in the balance that follows from symmetry: four
// plates, each heated at another edge, add up to one at 100 degrees
// everywhere, so that the middle is at 25.
func TestSteadyState(t *testing.T) {
	if v := serial(9, 5000)[4*9+4]; math.Abs(v-25) > 1e-9 {
		t.Errorf("the middle is at %g degrees, want 25", v)
	}
}

func TestTooManyRanks(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		if _, err := newPlate(c, 2); err == nil || !strings.Contains(err.Error(), "too many") {
			return fmt.Errorf("a plate of 2 x 2 for 1 x 3 ranks: %v", err)
		}
		return nil
	})
}

func TestArrange(t *testing.T) {
	for size, want := range map[int]grid{1: {1, 1}, 2: {1, 2}, 7: {1, 7}, 12: {3, 4}, 16: {4, 4}, 64: {8, 8}} {
		if got := arrange(size); got != want {
			t.Errorf("%d ranks: %v, want %v", size, got, want)
		}
	}
}

func TestPicture(t *testing.T) {
	name := filepath.Join(t.TempDir(), "plate.png")
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		return heat(c, options{n: 32, steps: 300, png: name}, &bytes.Buffer{})
	})
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 32 || b.Dy() != 32 {
		t.Fatalf("picture of %v", b)
	}
	top, _, _, _ := img.At(16, 0).RGBA()
	bottom, _, _, _ := img.At(16, 31).RGBA()
	if top <= bottom {
		t.Errorf("red is %d at the hot edge and %d at the cold one", top, bottom)
	}
}

func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		return heat(c, options{n: 16, steps: 50, log: name, every: 20}, &bytes.Buffer{})
	})
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var step int
	var v float64
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if n, _ := fmt.Sscan(lines[len(lines)-1], &step, &v); len(lines) != 2 || n != 2 || step != 40 || v <= 0 || v >= hot {
		t.Errorf("the log is %q", text)
	}
}
