package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/mpiworld"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// asProgram has the test's binary be the program.
const asProgram = "STENCIL_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// want is the result of a torus of 191 x 201, on every machine.
const want = "result stencil digest=378bdadd4c3eb6e8\n"

func small(policy string) options {
	return options{rows: 191, columns: 201, steps: 49, every: 5, policy: policy, kills: kills{}}
}

// Ranks of mpi compute the same however many they are.
func TestRanks(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		var out bytes.Buffer
		mpitest.Run(t, size, func(c *mpi.Comm) error {
			tr, err := mpiworld.New(c, mpiworld.Options{})
			if err != nil {
				return err
			}
			world := mirror.New(tr)
			defer world.Close()
			return mirror.Run(world, func(ctx context.Context) error { return stencil(ctx, world, comm{c}, small("none"), &out) })
		})
		if out.String() != want {
			t.Errorf("%d ranks: %q", size, out.String())
		}
	}
}

// Processes are killed, and the others go on in theirs.
func TestKilled(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"nobody", "-tcp 3", want},
		{"one", "-tcp 4 -spares 1 -kill 1@33", want},
		{"rank 0, coded", "-tcp 4 -spares 1 -policy code -kill 0@33", want},
		{"two that are not neighbours", "-tcp 4 -spares 2 -kill 0@33,2@33", want},
		{"more than there are spares", "-tcp 3 -wait 1ms -kill 1@33", "no spare for rank 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], append([]string{"-rows", "191", "-columns", "201"}, strings.Fields(c.args)...)...)
			cmd.Env = append(os.Environ(), asProgram+"=1")
			out, err := cmd.CombinedOutput()
			good := strings.HasSuffix(c.want, want)
			back := strings.Contains(string(out), "back to step ")
			if !strings.Contains(string(out), c.want) || good != (err == nil) || back != (good && strings.Contains(c.args, "-kill")) {
				t.Errorf("%v, %v:\n%s", c.args, err, out)
			}
		})
	}
}
