package main

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/examples/heat/plate"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// alone is what one rank computes, without messages.
func alone(t *testing.T, n, steps int) []float64 {
	p, err := plate.New(n, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range steps {
		p.Step()
	}
	return p.Own()
}

// Any number of ranks computes the same bits as one alone.
func TestHeat(t *testing.T) {
	o := options{n: 21, steps: 200}
	want := fmt.Sprintf("result heat n=21 steps=200 digest=%s\n", digest(alone(t, o.n, o.steps)))
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
	if got, want := digest(alone(t, 16, 100)), "788363a2563f4ef9"; got != want {
		t.Errorf("digest %s, want %s", got, want)
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
	if n, _ := fmt.Sscan(lines[len(lines)-1], &step, &v); len(lines) != 2 || n != 2 || step != 40 || v <= 0 || v >= plate.Hot {
		t.Errorf("the log is %q", text)
	}
}
