package stdio

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bytesOf is what a script gives of a stream whose bytes are their own offsets.
func bytesOf(s Script, end int64) (b []int64) {
	for _, p := range s {
		for at := p.From; at < min(p.To, end); at++ {
			b = append(b, at)
		}
	}
	return b
}

func TestScript(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var s Script
		for range rng.IntN(4) {
			from := rng.Int64N(20)
			s = append(s, Span{from, from + rng.Int64N(8)})
		}
		s = append(s, Span{rng.Int64N(40), Rest})
		all := bytesOf(s, 60)
		n := rng.Int64N(int64(len(all)))
		if got := bytesOf(s.First(n), 60); !slices.Equal(got, all[:n]) {
			t.Fatalf("the first %d of %v: %v", n, s, got)
		}
		if got := bytesOf(s.After(n), 60); !slices.Equal(got, all[n:]) {
			t.Fatalf("%v after %d: %v, want %v", s, n, got, all[n:])
		}
		if got := bytesOf(s.First(n).Then(s.After(n)), 60); !slices.Equal(got, all) {
			t.Fatalf("%v in two parts at %d: %v", s, n, got)
		}
	}
}

// The bytes on a tape can be read, in memory and beyond it, until it is forgotten.
func TestTape(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rng := rand.New(rand.NewPCG(3, 4))
	want := make([]byte, 3*tapeMemory)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	var tp tape
	check := func() {
		t.Helper()
		var got []byte
		buf := make([]byte, 100_000)
		for at := tp.from; at < tp.end; at = tp.from + int64(len(got)) {
			n, err := tp.read(buf, at)
			if err != nil || n == 0 {
				t.Fatalf("%d bytes at %d: %v", n, at, err)
			}
			got = append(got, buf[:n]...)
		}
		if !bytes.Equal(got, want[tp.from:tp.end]) {
			t.Fatalf("from %d to %d the tape holds something else", tp.from, tp.end)
		}
	}
	for tp.end < int64(len(want)) {
		if err := tp.write(want[tp.end:min(int64(len(want)), tp.end+33_333)]); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(10) == 0 {
			tp.forget(tp.from + rng.Int64N(tp.end-tp.from+1)/2)
			check()
		}
	}
	if check(); tp.file == nil {
		t.Error("all of it is in memory")
	}
	if _, err := tp.read(make([]byte, 1), tp.from-1); err == nil {
		t.Error("what was forgotten is there")
	}
	tp.forget(tp.end)
	check()
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// getInput gives a pump another life and compares what that gets.
func getInput(t *testing.T, p *Pump, s Script, want string) {
	t.Helper()
	got := make(chan []byte, 1000)
	p.Attach(s, func(b []byte) { got <- b })
	var all []byte
	for b := range got {
		if len(b) == 0 {
			break
		}
		all = append(all, b...)
		p.Give(len(b))
	}
	if string(all) != want {
		t.Fatalf("script %v: %d bytes that differ, want %d", s, len(all), len(want))
	}
}

// Each life gets what its script says, also when more was read than memory holds, of
// streams and of files, from wherever the file stood.
func TestPump(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	text := strings.Repeat("0123456789 a line\n", 200_000)
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("skipped"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]io.Reader{"stream": strings.NewReader(text), "file": f} {
		t.Run(name, func(t *testing.T) {
			p := NewPump(src, func(err error) { t.Error(err) })
			go p.Run(nil)
			getInput(t, p, WholeInput(), text)
			getInput(t, p, WholeInput(), text)
			getInput(t, p, Script{{0, 10}, {1_000_000, Rest}}, text[:10]+text[1_000_000:])
			p.KeepFrom(2_000_000)
			getInput(t, p, Script{{2_500_000, Rest}}, text[2_500_000:])
			if err := p.Can(Script{{2_000_000, Rest}}); err != nil {
				t.Error(err)
			}
			if err := p.Can(WholeInput()); (err == nil) != (name == "file") {
				t.Errorf("what is not kept: %v", err)
			}
		})
	}
}

// Where the input cannot be kept the job goes on, and only a restart is refused.
func TestPumpCannotKeep(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nosuch"))
	failed := make(chan error, 1)
	text := strings.Repeat("x", 3*tapeMemory)
	p := NewPump(strings.NewReader(text), func(err error) { failed <- err })
	go p.Run(nil)
	getInput(t, p, WholeInput(), text)
	if err := <-failed; !strings.Contains(err.Error(), "cannot be kept") {
		t.Error(err)
	}
	if p.Can(WholeInput()) == nil {
		t.Error("what was not kept is promised")
	}
}

// What rank 0 had been given and had not taken when it moved is given to its next process, although no restart needs it.
func TestPumpKeepsWhatIsNear(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 200_000)
	p := NewPump(strings.NewReader(text), func(err error) { t.Error(err) })
	p.KeepNear()
	p.KeepFrom(Rest)
	go p.Run(nil)
	getInput(t, p, WholeInput(), text)
	taken := len(text) - inputWindow - pipeRoom
	if err := p.Can(WholeInput().After(int64(taken))); err != nil {
		t.Fatal(err)
	}
	getInput(t, p, WholeInput().After(int64(taken)), text[taken:])
	if p.Can(WholeInput()) == nil {
		t.Error("all is kept")
	}
}
