package mpi_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
)

// programs are run in processes of their own, without a launcher: jobs of one
// rank.
var programs = map[string]func(){
	"run": func() {
		mpi.Run(func(c *mpi.Comm) error {
			sum := []int{0}
			if err := mpi.Allreduce(c, []int{7}, sum, mpi.Sum); err != nil {
				return err
			}
			fmt.Println("rank", c.Rank(), "of", c.Size(), "sum", sum[0], mpi.World() == c, mpi.Self().Size())
			return nil
		})
		fmt.Println("finalized:", errors.Is(mpi.Barrier(mpi.World()), mpi.ErrInit))
	},
	"example Run":         ExampleRun,
	"example Init":        ExampleInit,
	"example Finalize":    ExampleFinalize,
	"example Initialized": ExampleInitialized,
	"example Finalized":   ExampleFinalized,
	"example World":       ExampleWorld,
	"example Self":        ExampleSelf,
	"example Abort":       ExampleAbort,
	"error":               func() { mpi.Run(func(*mpi.Comm) error { return errors.New("no bread") }) },
	"own name":            func() { mpi.Run(func(*mpi.Comm) error { return errors.New("rank 0: no butter") }) },
	"panic":               func() { mpi.Run(func(*mpi.Comm) error { panic("no milk") }) },
	"goexit":              func() { mpi.Run(func(*mpi.Comm) error { runtime.Goexit(); return nil }) },
	"left over": func() {
		mpi.Run(func(c *mpi.Comm) error {
			_, err := mpi.Isend(c, make([]byte, 8<<20), 0, 7)
			return err
		})
	},
	"ended late": func() {
		mpi.Init()
		r, err := mpi.Irecv(mpi.World(), []int{0}, 0, 7)
		fmt.Println(err, errors.Is(mpi.Finalize(), mpi.ErrPending), mpi.SendValue(mpi.World(), 1, 0, 7))
		_, err = r.Wait()
		fmt.Println(err, mpi.Finalize(), errors.Is(mpi.Finalize(), mpi.ErrInit))
	},
	// One of two waits for the other's message; that one sees that, and receives it.
	"finalize twice": func() {
		mpi.Init()
		w, buf := mpi.World(), make([]byte, 8<<20)
		fmt.Println(mpi.Bsend(w, buf, 0, 7))
		errs := make(chan error)
		for range 2 {
			go func() {
				err := mpi.Finalize()
				if errors.Is(err, mpi.ErrInit) {
					fmt.Println(mpi.Finalized())
					_, err = mpi.Recv(w, buf, 0, 7)
				}
				errs <- err
			}()
		}
		fmt.Println(<-errs, <-errs, mpi.Finalized())
	},
	"abort":     func() { mpi.Run(func(c *mpi.Comm) error { mpi.Abort(c, 42); return nil }) },
	"abort nil": func() { mpi.Run(func(*mpi.Comm) error { mpi.Abort(nil, 42); return nil }) },
	"wrong order": func() {
		fmt.Println(mpi.Initialized(), mpi.World() == nil, mpi.Self() == nil,
			errors.Is(mpi.Finalize(), mpi.ErrInit), errors.Is(mpi.Barrier(mpi.World()), mpi.ErrComm))
		fmt.Println(mpi.Init(), mpi.Initialized(), errors.Is(mpi.Init(), mpi.ErrInit))
		fmt.Println(mpi.Finalize(), mpi.Initialized(), errors.Is(mpi.Finalize(), mpi.ErrInit), errors.Is(mpi.Init(), mpi.ErrInit))
	},
}

const programVariable = "MPI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if p := programs[os.Getenv(programVariable)]; p != nil {
		p()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	for _, x := range []struct {
		program        string
		status         int
		stdout, stderr string
	}{
		{"run", 0, "rank 0 of 1 sum 7 true 1\nfinalized: true\n", ""},
		{"example Run", 0, "rank 0 of 1 sum 7\n", ""},
		{"example Init", 0, "rank 0 of 1 true\n", ""},
		{"example Finalize", 0, "<nil> <nil> true\n", ""},
		{"example Initialized", 0, "false\ntrue\ntrue\n", ""},
		{"example Finalized", 0, "false\ntrue\n", ""},
		{"example World", 0, "no communicator\ntrue world\n", ""},
		{"example Self", 0, "alone: true\n", ""},
		{"example Abort", 42, "", "rank 0: Abort"},
		{"error", 1, "", "rank 0: no bread"},
		{"own name", 1, "", "rank 0: no butter"},
		{"panic", 1, "", "rank 0: panic: no milk"},
		{"goexit", 1, "", "rank 0: runtime.Goexit has ended"},
		{"left over", 1, "", "rank 0: mpi: Finalize on world, rank 0 of 1: requests are left over: 1: Isend(destination 0, tag 7"},
		{"ended late", 0, "<nil> true <nil>\n<nil> <nil> true\n", ""},
		{"finalize twice", 0, "<nil>\nfalse\n<nil> <nil> true\n", ""},
		{"abort", 42, "", "rank 0: Abort was called with status 42"},
		{"abort nil", 42, "", "rank 0: Abort was called with status 42"},
		{"wrong order", 0, "false true true true true\n<nil> true true\n<nil> true true true\n", ""},
	} {
		t.Run(x.program, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), programVariable+"="+x.program, "GORACE=atexit_sleep_ms=0")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			if cmd.ProcessState.ExitCode() != x.status || string(out) != x.stdout || !strings.HasPrefix(stderr.String(), x.stderr) {
				t.Errorf("status %d, stdout %q, stderr %q", cmd.ProcessState.ExitCode(), out, stderr.String())
			}
		})
	}
}

// A program that imports mpi stays static with a plain go build.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/gorun-mpi/gorun/rpi/tcp") {
		t.Errorf("the transport is missing: %v", deps)
	}
	for _, bad := range []string{"net", "os/user", "crypto/tls", "runtime/cgo", "github.com/google/uuid", "github.com/klauspost/reedsolomon", "github.com/BurntSushi/toml"} {
		if slices.Contains(deps, bad) {
			t.Errorf("mpi imports %s", bad)
		}
	}
}

func TestClock(t *testing.T) {
	a := mpi.Wtime()
	for mpi.Wtime() == a {
	}
	if b := mpi.Wtime(); b < a || mpi.Wtick() <= 0 || mpi.Wtick() > 1e-3 {
		t.Errorf("%v, then %v, tick %v", a, b, mpi.Wtick())
	}
}
