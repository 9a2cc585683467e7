package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestLadder(t *testing.T) {
	if got, want := ladder(1, 16, 0), []int{1, 2, 3, 4, 6, 8, 12, 16}; !reflect.DeepEqual(got, want) {
		t.Errorf("without perturbation %v, want %v", got, want)
	}
	if got, want := ladder(60, 70, 3), []int{61, 64, 67}; !reflect.DeepEqual(got, want) {
		t.Errorf("around 64 %v, want %v", got, want)
	}
	if all := ladder(1, 64<<20, 3); all[0] != 1 || all[len(all)-1] != 64<<20 {
		t.Errorf("from %d to %d, want 1 to 64 MB", all[0], all[len(all)-1])
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-bidir", "-sizes", "8, 1024", "-time", "1ms"})
	if err != nil || o.mode != "bidir" || !reflect.DeepEqual(o.sizes, []int{8, 1024}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"-stream", "-rate"}, {"-sizes", "8,x"}, {"-sizes", "-1"}, {"-sizes", "99999999999999999999"},
		{"-min", "9", "-max", "8"}, {"-batches", "0"}, {"-time", "0s"}, {"extra"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// Every pattern moves messages of every kind of size and ends on both ranks.
func TestPatterns(t *testing.T) {
	o := &options{sizes: []int{0, 1, 63, 64, 70000, 300000}, batches: 3, time: 3 * time.Millisecond}
	for _, kind := range []pattern{pingpong, stream, bidir, window} {
		for _, dirty := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", kind.name, dirty), func(t *testing.T) {
				mpitest.Run(t, 2, func(c *mpi.Comm) error {
					p := newPair(c, o.sizes, dirty)
					if p.rank == 1 {
						return p.follow(o, []pattern{kind})
					}
					for _, size := range o.sizes {
						m, err := p.measure(kind, size, o)
						if err != nil {
							return err
						}
						if len(m.times) < 1 || len(m.times) > o.batches || m.count < 1 || !(m.seconds() > 0) {
							return fmt.Errorf("%d bytes: %d batches of %d, %g s", size, len(m.times), m.count, m.seconds())
						}
					}
					return nil
				})
			})
		}
	}
}

func TestIntegrity(t *testing.T) {
	o := &options{sizes: ladder(1, 300000, 3)}
	var out bytes.Buffer
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		return integrity(newPair(c, o.sizes, false), o, &out)
	})
	if got := strings.Count(out.String(), "intact"); got != len(o.sizes) {
		t.Errorf("%d of %d sizes intact:\n%s", got, len(o.sizes), out.String())
	}
}

// A single wrong byte, a shifted message and one of another round are seen.
func TestIntegritySees(t *testing.T) {
	p := make([]byte, 1000)
	fill(p, seed(1000, 3, 0))
	if at := differs(p, seed(1000, 3, 0)); at >= 0 {
		t.Fatalf("an intact message differs at %d", at)
	}
	p[777] ^= 1
	if at := differs(p, seed(1000, 3, 0)); at != 777 {
		t.Errorf("the bit flipped at 777 is seen at %d", at)
	}
	fill(p, seed(1000, 3, 0))
	if at := differs(p[8:], seed(1000, 3, 0)); at < 0 {
		t.Error("a shifted message passes")
	}
	if at := differs(p, seed(1000, 2, 0)); at < 0 {
		t.Error("a message of another round passes")
	}
	if at := differs(p, seed(1000, 3, 1)); at < 0 {
		t.Error("a message of the other rank passes")
	}
}

func TestReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "np.out")
	m := measurement{kind: pingpong, size: 1000, count: 5, times: []float64{1e-6, 2e-6, 3e-6}}
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{csv: true}, "mode,bytes,seconds,low,high\npingpong,1000,2e-06,1.5e-06,2.5e-06\n"},
		{options{mode: "pingpong", out: name}, "     bytes     us one way   spread       Mbit/s  repetitions\n      1000          2.000    50.0%      4000.00           15\n"},
	} {
		var out bytes.Buffer
		r, err := newReport(&c.o, &out)
		if err != nil {
			t.Fatal(err)
		}
		r.add(m)
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("got\n%swant\n%s", out.String(), c.want)
		}
	}
	file, err := os.ReadFile(name)
	if want := "    1000 4000.000000   0.00000200\n"; err != nil || string(file) != want {
		t.Errorf("NetPIPE's file is %q, %v; want %q", file, err, want)
	}
}
