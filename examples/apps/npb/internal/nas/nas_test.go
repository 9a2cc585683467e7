package nas

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// A jump leads to where as many steps do.
func TestAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(t, "n")
		r := Seed
		for range n {
			if x := r.Next(); !(x > 0 && x < 1) {
				t.Fatalf("number %v", x)
			}
		}
		if got := Seed.After(n); got != r {
			t.Errorf("after %d steps %d, by a jump %d", n, r, got)
		}
		m := rapid.IntRange(0, 1<<40).Draw(t, "m")
		if a, b := Seed.After(n).After(m), Seed.After(n+m); a != b {
			t.Errorf("jumps of %d and %d: %d, in one %d", n, m, a, b)
		}
	})
}

func TestParseClass(t *testing.T) {
	for args, want := range map[string]Class{"": 'S', "S": 'S', "W": 'W', "A": 'A', "B": 'B', "s": 0, "SW": 0, "X": 0, "A B": 0} {
		if got, err := ParseClass(strings.Fields(args)); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v", args, got, err)
		}
	}
}

// Wrong results, results that are no numbers, and none at all are no success.
func TestReport(t *testing.T) {
	good := Check{What: "x", Got: 2 + 1e-12, Want: 2, Tolerance: 1e-10}
	for name, p := range map[string]struct {
		checks []Check
		good   bool
	}{
		"good":  {[]Check{good}, true},
		"none":  {nil, false},
		"wrong": {[]Check{good, {What: "y", Got: 2.1, Want: 2, Tolerance: 1e-10}}, false},
		"NaN":   {[]Check{{What: "y", Got: math.NaN(), Want: 2, Tolerance: 1e-10}}, false},
		"zero":  {[]Check{{What: "misplaced", Got: 1}}, false},
	} {
		var out bytes.Buffer
		mpitest.Run(t, 2, func(c *mpi.Comm) error {
			err := Do(c, 'S', func(*mpi.Comm, Class) (*Report, error) { return &Report{Seconds: 1, Checks: p.checks}, nil }, &out)
			if c.Rank() == 0 && errors.Is(err, ErrUnsuccessful) == p.good {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		last := map[bool]string{true: "\nVerification: SUCCESSFUL\n", false: "\nVerification: UNSUCCESSFUL\n"}[p.good]
		if !strings.HasSuffix(out.String(), last) {
			t.Errorf("%s: the last line is not %q:\n%s", name, last, out.String())
		}
	}
}
