package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// One rank that has found something wrong is enough, and all ranks learn of it.
func TestVerdict(t *testing.T) {
	for _, wrong := range []error{nil, errors.New("a hole")} {
		var out bytes.Buffer
		mpitest.Run(t, 3, func(c *mpi.Comm) error {
			mine := wrong
			if c.Rank() != 1 {
				mine = nil
			}
			if err := app.Verdict(c, &out, mine); errors.Is(err, app.ErrUnsuccessful) != (wrong != nil) {
				return fmt.Errorf("Verdict returned %v", err)
			}
			return nil
		})
		want := "Verification: SUCCESSFUL\n"
		if wrong != nil {
			want = "rank 1: a hole\nVerification: UNSUCCESSFUL\n"
		}
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}

// Every item has one owner, which has it in its range.
func TestRange(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 16} {
		for _, n := range []int{1, 2, 5, 16, 100} {
			next := 0
			for rank := range size {
				lo, hi := app.Range(n, size, rank)
				if lo != next {
					t.Fatalf("%d items on %d ranks: rank %d begins at %d, not at %d", n, size, rank, lo, next)
				}
				for ; next < hi; next++ {
					if got := app.Owner(n, size, next); got != rank {
						t.Fatalf("%d items on %d ranks: item %d is rank %d's, not rank %d's", n, size, next, rank, got)
					}
				}
			}
			if next != n {
				t.Fatalf("%d items on %d ranks end at %d", n, size, next)
			}
		}
	}
}
