// Package apptest tests example programs that verify their own result.
package apptest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Program is one rank of a program.
type Program func(c *mpi.Comm, out io.Writer) error

// Succeeds runs a program on each number of ranks. Its last line must say that it has found its result right.
func Succeeds(t *testing.T, p Program, sizes ...int) {
	t.Helper()
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) { run(t, n, p) })
	}
}

// Large is Succeeds for a program that takes seconds, which is run if GORUN_APPS is set.
func Large(t *testing.T, p Program, sizes ...int) {
	t.Helper()
	if os.Getenv("GORUN_APPS") == "" {
		t.Skip("it takes seconds; set GORUN_APPS to run it")
	}
	Succeeds(t, p, sizes...)
}

// Restarts ends a program at one of its Points and runs it again from the images. It must print what an undisturbed
// run prints.
func Restarts(t *testing.T, p Program, n, point int) {
	t.Helper()
	want := run(t, n, p)
	var out bytes.Buffer
	mpitest.Restart(t, n, point, func(c *mpi.Comm) error { return p(c, &out) })
	if out.String() != want {
		t.Errorf("%d ranks that go on from Point %d print\n%swithout a restart they print\n%s", n, point, out.String(), want)
	}
}

func run(t *testing.T, n int, p Program) string {
	t.Helper()
	var out bytes.Buffer
	mpitest.Run(t, n, func(c *mpi.Comm) error { return p(c, &out) })
	if !strings.HasSuffix(out.String(), "Verification: SUCCESSFUL\n") {
		t.Errorf("%d ranks print\n%s", n, out.String())
	}
	return out.String()
}
