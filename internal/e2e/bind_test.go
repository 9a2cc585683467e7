package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/bind"
)

// cores are the CPUs of each core that this test may use.
func cores(t *testing.T) (all []bind.Set, may bind.Set) {
	t.Helper()
	may, err := bind.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	top, err := bind.Read(os.DirFS(bind.Sys), may)
	if err != nil {
		t.Skipf("the kernel does not tell about CPUs here: %v", err)
	}
	for {
		masks, err := top.Masks(bind.Rule{Unit: bind.Core, Before: len(all)}, 1)
		if err != nil {
			return all, may
		}
		all = append(all, masks[0])
	}
}

// allowed reads where each thread of a process may run; all must be the same.
func allowed(t *testing.T, pid int) (cpus string) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		switch now := field(text, "Cpus_allowed_list:"); {
		case cpus == "":
			cpus = now
		case now != cpus:
			t.Errorf("%s: CPUs %s, of others %s", name, now, cpus)
		}
	}
	return cpus
}

// TestBindFresh: programs find themselves on their CPUs from the first instruction on, one core for
// each rank, also over several agents; one rank more than cores is refused with the remedy.
func TestBindFresh(t *testing.T) {
	all, may := cores(t)
	h := newHouse(t)
	np := min(len(all), 4)
	look := []string{"/bin/grep", "Cpus_allowed_list", "/proc/self/status"}
	for _, agents := range []int{1, np} {
		out := h.must(append([]string{"-np", strconv.Itoa(np), "-agents", strconv.Itoa(agents), "-bind", "core", "-tag-output"}, look...)...)
		for rank := range np {
			if want := fmt.Sprintf("[%d] Cpus_allowed_list:\t%s\n", rank, all[rank]); !strings.Contains(out, want) {
				t.Errorf("%d agents: no %q in\n%s", agents, want, out)
			}
		}
	}
	if out := h.must(append([]string{"-np", "1", "-bind", "none"}, look...)...); !strings.Contains(out, ":\t"+may.String()+"\n") {
		t.Errorf("not bound: %s; gorun itself may use %s", out, may)
	}
	_, errs, code := h.gorun(append([]string{"-np", strconv.Itoa(len(all) + 1), "-bind", "core"}, look...)...)
	if code == 0 || !strings.Contains(errs, "too few cores") || !strings.Contains(errs, "use fewer ranks here, -bind socket or -bind none") {
		t.Errorf("more ranks than cores: exit %d\n%s", code, errs)
	}
	h.clean()
}

// TestBindRestored: a native image holds nothing of -bind. A restart where other CPUs are allowed
// binds to those, one with -bind none binds to nothing, and all threads are there.
func TestBindRestored(t *testing.T) {
	all, may := cores(t)
	if len(all) < 2 {
		t.Skip("one core")
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip(err)
	}
	h := nativeHouse(t)
	dir := h.folder("stage")
	r := h.nativeRun(1, []string{"-bind", "core"}, filepath.Join(bin, "subject"), "-dir", dir, "asleep")
	on := func(r *run, want bind.Set) {
		t.Helper()
		if got := allowed(t, h.pid(r.id, 0)); got != want.String() {
			t.Errorf("the rank may use CPUs %s, want %s", got, want)
		}
	}
	on(r, all[0])
	var status struct{ Ranks []struct{ CPUs string } }
	if err := json.Unmarshal([]byte(h.must("status", "-json", r.id)), &status); err != nil {
		t.Fatal(err)
	}
	if got := status.Ranks[0].CPUs; got != all[0].String() {
		t.Errorf("gorun status says %q, want %s", got, all[0])
	}
	if out := h.must("status", "-v", r.id); !strings.Contains(out, "bound to CPUs "+all[0].String()+"\n") {
		t.Errorf("gorun status -v:\n%s", out)
	}
	schema := r.checkpoint("-stop")
	r.wait()

	h.wrap = []string{"taskset", "-c", all[1].String()}
	r = h.restart(schema) // -bind comes from the snapshot
	on(r, all[1])
	schema = r.checkpoint("-stop")
	r.wait()

	h.wrap = nil
	r = h.restart(schema, "-bind", "none")
	on(r, may)
	h.signal(dir, "go")
	r.ended()
}
