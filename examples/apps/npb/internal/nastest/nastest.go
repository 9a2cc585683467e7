// Package nastest runs the tests that all the NAS benchmarks have.
package nastest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Verify runs class S on each of the numbers of ranks, and then the classes that GORUN_NPB names.
func Verify(t *testing.T, b nas.Benchmark, ranks ...int) {
	for _, class := range "S" + os.Getenv("GORUN_NPB") {
		for _, n := range ranks {
			t.Run(fmt.Sprintf("%c/%d", class, n), func(t *testing.T) {
				var out bytes.Buffer
				mpitest.Run(t, n, func(c *mpi.Comm) error { return nas.Do(c, nas.Class(class), b, &out) })
				if !strings.HasSuffix(out.String(), "\nVerification: SUCCESSFUL\n") {
					t.Errorf("it ended with\n%s", out.String())
				}
				if testing.Verbose() {
					t.Log("\n" + out.String())
				}
			})
		}
	}
}

// Restart has class S go on from portable images of its k-th Point.
func Restart(t *testing.T, b nas.Benchmark, ranks, k int) {
	var out bytes.Buffer
	mpitest.Restart(t, ranks, k, func(c *mpi.Comm) error { return nas.Do(c, 'S', b, &out) })
	if !strings.HasSuffix(out.String(), "\nVerification: SUCCESSFUL\n") {
		t.Errorf("it ended with\n%s", out.String())
	}
}

// Refused has a benchmark refuse a number of ranks by an error that says want.
func Refused(t *testing.T, b nas.Benchmark, ranks int, want string) {
	mpitest.Run(t, ranks, func(c *mpi.Comm) error {
		if _, err := b(c, 'S'); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("on %d ranks: %v", ranks, err)
		}
		return nil
	})
}
