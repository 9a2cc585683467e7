package restore

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestProfile: a CPU profile of Go, which has a timer for each thread, goes on after images and restores, and its file is whole at the end.
func TestProfile(t *testing.T) {
	sum, _ := undisturbed(t)
	tr := newTrip(t, nativetest.Build(t, "trip", "default"))
	profile := filepath.Join(tr.dir, "profile")
	tr.start(append(tripArgs, filepath.Join(tr.dir, "log"), profile)...)
	for range 4 {
		tr.steps(18, 12)
		tr.image(whole.CaptureOptions{}) // it goes on
		tr.steps(18, 12)
		img := tr.image(whole.CaptureOptions{})
		s := stateOf(t, img)
		running := 0
		for _, timer := range s.Timers {
			if timer.Of != 0 && timer.Interval > 0 {
				running++
			}
		}
		if running == 0 || s.Itimers == nil {
			t.Errorf("%d timers of threads run: %+v, and %+v", running, s.Timers, s.Itimers)
		}
		if r, err := image.Open(img); err != nil || r.Meta().Format != state.FormatOfTimer {
			t.Errorf("the image of a program with such timers: %v, %v", r, err)
		} else {
			r.Close()
		}
		tr.kill()
		tr.restore(img)
	}
	tr.steps(200, 0)
	if got := tr.next("sum "); got != sum {
		t.Errorf("the sum is %s, undisturbed it is %s", got, sum)
	}
	samples, functions := profiled(t, profile)
	if samples == 0 || !bytes.Contains(functions, []byte("main.spin")) {
		t.Errorf("%d samples in functions %q", samples, functions)
	}
}

// profiled counts the samples of a profile, and returns its strings.
func profiled(t *testing.T, path string) (samples int, strings []byte) {
	const sample, text = 2<<3 | 2, 6<<3 | 2 // fields of the message Profile, each with its length before it
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for len(p) > 0 {
		key, n := binary.Uvarint(p)
		length, m := binary.Uvarint(p[max(n, 0):])
		if n <= 0 || m <= 0 {
			t.Fatal("the profile ends within a field")
		}
		p = p[n+m:]
		if key&7 != 2 { // a number
			continue
		}
		if uint64(len(p)) < length {
			t.Fatal("the profile ends within a field")
		}
		switch key {
		case sample:
			samples++
		case text:
			strings = append(append(strings, p[:length]...), ' ')
		}
		p = p[length:]
	}
	return samples, strings
}
