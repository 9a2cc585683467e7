package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/examples/solver/cg"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// run solves on size ranks and returns rank 0's output.
func run(t *testing.T, size int, o options) string {
	t.Helper()
	var out bytes.Buffer
	mpitest.Run(t, size, func(c *mpi.Comm) error { return solve(c, o, &out, &bytes.Buffer{}) })
	return out.String()
}

// The result is the same to the last bit on any number of ranks and any
// architecture.
func TestSolve(t *testing.T) {
	for _, p := range []struct {
		name string
		o    options
		want string
	}{
		{"tower", options{iters: 1000, tol: 1e-10}, "result solver n=240 iters=106 residual=7.180e-11 digest=f82af597b0425d59"},
		{"poisson", options{poisson: 6, iters: 100, tol: 1e-12}, "result solver n=216 iters=9 residual=3.719e-13 digest=a4f09a4df0050bb3"},
		{"five iterations", options{poisson: 5, iters: 5}, "result solver n=125 iters=5 residual=6.491e-05 digest=45882462c3ea886c"},
	} {
		for _, size := range []int{1, 2, 3, 5, 8, 64} {
			t.Run(fmt.Sprintf("%s/%d", p.name, size), func(t *testing.T) {
				if got := run(t, size, p.o); got != p.want+"\n" {
					t.Errorf("got  %swant %s", got, p.want)
				}
			})
		}
	}
}

// The real matrix, where the file is at hand: GORUN_MATRIX names it.
func TestSolveDam(t *testing.T) {
	name := os.Getenv("GORUN_MATRIX")
	if name == "" {
		t.Skip("GORUN_MATRIX does not name a matrix")
	}
	o := options{matrix: name, iters: 1000, tol: 1e-10}
	want := run(t, 1, o)
	m := regexp.MustCompile(`^result solver n=(\d+) iters=(\d+) residual=(\S+) digest=[0-9a-f]{16}\n$`).FindStringSubmatch(want)
	if m == nil {
		t.Fatalf("unexpected result %q", want)
	}
	var residual float64
	fmt.Sscan(m[3], &residual)
	if !(residual <= 2e-10) {
		t.Errorf("true residual %g after %s iterations", residual, m[2])
	}
	for _, size := range []int{3, 8} {
		if got := run(t, size, o); got != want {
			t.Errorf("%d ranks: got %swant %s", size, got, want)
		}
	}
}

// The solution is the one that the right-hand side was made of.
func TestSolutionIsOnes(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		rows, starts, err := load(c, options{poisson: 7})
		if err != nil {
			return err
		}
		s, _, err := prepare(c, rows, starts)
		if err != nil {
			return err
		}
		u := s.Start()
		for s.Residual(u) > 1e-13 {
			if err := s.Step(u); err != nil {
				return err
			}
		}
		for i, x := range u.X {
			if math.Abs(x-1) > 1e-11 {
				return fmt.Errorf("row %d is %v", rows.First+i, x)
			}
		}
		return nil
	})
}

// One row a rank is the most; iterating goes on beyond the end of the precision.
func TestExtremes(t *testing.T) {
	if got := run(t, 8, options{poisson: 2, iters: 100, tol: 1e-10}); !strings.HasPrefix(got, "result solver n=8 ") {
		t.Errorf("8 ranks for 8 rows: %q", got)
	}
	if got := run(t, 2, options{poisson: 3, iters: 300}); !strings.HasPrefix(got, "result solver n=27 iters=300 ") {
		t.Errorf("-tol 0 does all iterations: %q", got)
	}
	if got := run(t, 2, options{poisson: 3, iters: 0}); !strings.Contains(got, " iters=0 residual=1.000e+00 ") {
		t.Errorf("-iters 0: %q", got)
	}
}

func TestMoreRanksThanRows(t *testing.T) {
	_, _, err := plan(9, options{poisson: 2})
	if err == nil || !strings.Contains(err.Error(), "9 ranks for a matrix of 8 rows") {
		t.Errorf("9 ranks for 8 rows: %v", err)
	}
}

// An indefinite matrix is refused, not iterated on.
func TestIndefinite(t *testing.T) {
	b, err := readMatrix(strings.NewReader("%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 1 -3\n2 2 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		s, _, err := prepare(c, b, []int{0, 2})
		if err != nil {
			return err
		}
		u := s.Start()
		for range 3 {
			if err = s.Step(u); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "not a positive definite matrix") {
			return fmt.Errorf("step on an indefinite matrix: %v", err)
		}
		return nil
	})
}

// The result is the same to the last bit when the number of ranks changes between two iterations.
func TestResize(t *testing.T) {
	o := options{poisson: 6, iters: 100, tol: 1e-12}
	var out bytes.Buffer
	mpitest.Resize(t, 3, []int{4, 8, 3, 1}, func(c *mpi.Comm) error { return solve(c, o, &out, &bytes.Buffer{}) })
	if want := run(t, 4, o); out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []options{
		{matrix: "a.mtx", poisson: 3}, {poisson: -1}, {poisson: cg.MaxPoisson + 1}, {iters: -1}, {tol: math.NaN()}, {tol: -1},
	} {
		if o.check(nil) == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if (&options{}).check([]string{"x"}) == nil {
		t.Error("an argument was accepted")
	}
}
