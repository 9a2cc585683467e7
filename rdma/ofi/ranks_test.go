package ofi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/ranktest"
)

// TestRanks runs a job whose ranks speak over libfabric. It is imaged with messages under way, killed, and goes on over the same or another of its
// providers, over soft, or over TCP, GORUN_OFI_RESTARTS times.
func TestRanks(t *testing.T) {
	if _, err := load(); err != nil {
		t.Skip(err)
	}
	fabrics := [][]string{ranktest.TCP, ranktest.RDMA("soft", "127.0.0.1")}
	for _, name := range everywhere {
		fabrics = append(fabrics, ranktest.RDMA("ofi", name))
	}
	t.Cleanup(sweep)
	dir := build(t)
	ranktest.Run(t, ranktest.Options{Gorun: filepath.Join(dir, "gorun"), Program: filepath.Join(dir, "ranks"), Fabrics: fabrics,
		Restarts: testenv.Number(t, "GORUN_OFI_RESTARTS", len(fabrics)), Seed: uint64(testenv.Number(t, "GORUN_OFI_SEED", 1))})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// build builds gorun, and the program as that of a user: in a module of its own.
func build(t *testing.T) (dir string) {
	dir = t.TempDir()
	root, err := filepath.Abs("../..")
	check(t, err)
	program := filepath.Join(dir, "program")
	check(t, os.CopyFS(program, os.DirFS("testdata/ranks")))
	const path = "github.com/gorun-mpi/gorun"
	mod := fmt.Sprintf("module ranks\n\ngo 1.25.0\n\nrequire (\n\t%s v0.0.0\n\t%[1]s/rdma/ofi v0.0.0\n)\n\nreplace (\n\t%[1]s => %s\n\t%[1]s/rdma/ofi => %[2]s/rdma/ofi\n)\n", path, root)
	check(t, os.WriteFile(filepath.Join(program, "go.mod"), []byte(mod), 0o600))
	var sums []byte
	for _, from := range []string{root, "."} {
		sum, err := os.ReadFile(filepath.Join(from, "go.sum"))
		check(t, err)
		sums = append(sums, sum...)
	}
	check(t, os.WriteFile(filepath.Join(program, "go.sum"), sums, 0o600))
	for in, args := range map[string][]string{root: {"-o", dir, "./cmd/gorun"}, program: {"-mod=mod", "-o", dir, "."}} {
		cmd := exec.Command("go", append([]string{"build"}, args...)...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}
