package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// group is a control group of memory below this process's own.
type group struct {
	dir         string
	limit, used string // files
}

// newGroup makes one; the test is skipped where that cannot be.
func newGroup(t *testing.T) *group {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		g := &group{limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes"}
		root := "/sys/fs/cgroup/memory"
		switch {
		case len(f) < 3:
			continue
		case slices.Contains(strings.Split(f[1], ","), "memory"):
		case f[0] == "0" && f[1] == "":
			g.limit, g.used, root = "memory.max", "memory.current", "/sys/fs/cgroup"
		default:
			continue
		}
		g.dir = filepath.Join(root, f[2], fmt.Sprintf("gorun-test-%d", os.Getpid()))
		if os.Mkdir(g.dir, 0o700) != nil {
			continue
		}
		t.Cleanup(func() {
			testenv.Until(t, func() string { // the kernel counts processes a moment longer
				if err := os.Remove(g.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err.Error()
				}
				return ""
			})
		})
		if _, err := os.Stat(filepath.Join(g.dir, g.limit)); err == nil {
			return g
		}
	}
	t.Skip("no control group with a limit of memory can be made here")
	return nil
}

// leaves limits the group to what it uses and some megabytes more.
func (g *group) leaves(t *testing.T, mb int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, g.used))
	if err != nil {
		t.Fatal(err)
	}
	used, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, g.limit), []byte(fmt.Sprint(used+mb<<20)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Snapshots in memory are refused by rank, node and remedy where a control group allows less than two of them in turn take. The job goes on, nobody is
// killed for it, and with more memory they are taken.
func TestMemoryOfGroup(t *testing.T) {
	g := newGroup(t)
	h := newHouse(t)
	h.group = g.dir
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "2", "-cr=native", "-ckpt-mirror", "none", "-jobid-file", file, self(t), asRank, "ballast", "64")
	id := h.jobID(p, file)
	p.out.wait(t, "in use", 1)
	h.group = "" // the other commands are not in it
	g.leaves(t, 3*64)
	out, errs, code := h.ask("checkpoint", id)
	for _, want := range []string{"rank ", "does not fit into the memory of the node", "control group", "-ckpt-dir"} {
		if code == 0 || !strings.Contains(errs, want) {
			t.Fatalf("exit %d, no %q: %s%s", code, want, out, errs)
		}
	}
	g.leaves(t, 10*64)
	for range 2 {
		if _, errs, code := h.ask("checkpoint", id); code != 0 {
			t.Fatalf("with more memory: exit %d, %s; the job has said:\n%s", code, errs, p.err)
		}
	}
	h.must("kill", id)
	if code := p.code(); code != 128+15 && code != 143 {
		t.Errorf("exit %d: %s", code, p.err)
	}
	h.nothingLeft()
}
