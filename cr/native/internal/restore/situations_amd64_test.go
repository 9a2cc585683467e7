package restore

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Outcomes of a situation, as docs/processes.md has them.
const (
	passes  = "passes"
	closed  = "closed" // a connection comes back closed, as the program is told
	refused = "refused"
	wrong   = "WRONG"
)

// verdict is how a situation came out, and what was said of it.
type verdict struct{ outcome, why string }

// rounds is how often a process is imaged, killed and restored: what was restored once has to be as good as new.
const rounds = 2

// judge images a process in a situation, kills it, restores it, does that with what was restored, too,
// and has it look whether all is as it was.
func judge(t *testing.T, program, scene string) verdict {
	tr := newTrip(t, program)
	tr.start(scene)
	if v := tr.hears("ready"); v != nil {
		return *v
	}
	for round := range rounds {
		img, err := tr.tryImage(whole.CaptureOptions{})
		switch {
		case errors.Is(err, refusal.ErrRefused) && round == 0:
			return tr.goesOn(verdict{refused, err.Error()})
		case err != nil:
			return verdict{wrong, fmt.Sprintf("imaging it, time %d: %v", round+1, err)}
		}
		tr.kill()
		if _, err := tr.tryRestore(img); err != nil {
			return verdict{wrong, "restoring it: " + err.Error()}
		}
	}
	fmt.Fprintln(tr.stdin)
	if v := tr.hears("passed"); v != nil {
		return *v
	}
	return verdict{outcome: passes}
}

// goesOn has a program whose image was refused go on: nothing of it was changed.
func (tr *trip) goesOn(v verdict) verdict {
	fmt.Fprintln(tr.stdin)
	if w := tr.hears("passed"); w != nil {
		return *w
	}
	return v
}

// hears waits until the program says a line. What it says else is a verdict.
func (tr *trip) hears(want string) *verdict {
	limit := time.NewTimer(tripLimit)
	defer limit.Stop()
	select {
	case line, ok := <-tr.lines:
		switch {
		case !ok:
			return &verdict{wrong, "it died"}
		case line == closed:
			return &verdict{outcome: closed}
		case line != want:
			return &verdict{wrong, line}
		}
		return nil
	case <-limit.C:
		return &verdict{wrong, "it hangs"}
	}
}

// tryImage is image that may fail.
func (tr *trip) tryImage(o whole.CaptureOptions) (string, error) {
	tr.images++
	path := filepath.Join(tr.dir, fmt.Sprintf("rank0-%d.img", tr.images))
	c, err := tr.target.Capture(o)
	if err != nil {
		return "", err
	}
	m := image.LocalMeta()
	m.Job, m.Seq = "trip", tr.images
	_, err = c.Write(image.Path(path), m, image.Options{NoFolder: true})
	return path, errors.Join(err, c.Release())
}

// situations reads the table of docs/processes.md: what is said of each situation, by its
// name.
func situations(t *testing.T) map[string]string {
	_, here, _, _ := runtime.Caller(0)
	f, err := os.Open(filepath.Join(filepath.Dir(here), "../../../../docs/processes.md"))
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // another user's
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		cells := strings.Split(s.Text(), "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		names, outcome := strings.Fields(strings.ReplaceAll(cells[1], "`", "")), strings.TrimSpace(cells[3])
		for _, name := range names {
			if table[name] != "" {
				t.Errorf("%s is in the table twice", name)
			}
			table[name] = outcome
		}
	}
	return table
}

// scenesVar names situations to be judged, with spaces between; "all" judges all, and
// without it some of each kind are.
const scenesVar = "GORUN_NATIVE_SCENES"

// chosen are the situations to be judged.
func chosen(names []string) []string {
	const each = 7
	switch only := strings.Fields(os.Getenv(scenesVar)); {
	case len(only) > 0 && only[0] == "all":
		return names
	case len(only) > 0:
		return only
	}
	var some []string
	for i := 0; i < len(names); i += each {
		some = append(some, names[i])
	}
	return some
}

// TestSituations compares the table with what happens. A situation that passes although
// the table has it refused is told, and is no failure: the table is to follow.
func TestSituations(t *testing.T) {
	program, _ := nativetest.BuildC(t, "scenes", "c")
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	table, names := situations(t), strings.Fields(string(list))
	if known := slices.Sorted(maps.Keys(table)); !slices.Equal(known, slices.Sorted(slices.Values(names))) {
		t.Errorf("the table has %q, the program %q", known, names)
	}
	if os.Getuid() != 0 {
		table["dumpable02"] = refused // only privilege may read its memory
	}
	count := map[string]int{}
	for _, name := range chosen(names) {
		t.Run(name, func(t *testing.T) {
			v := judge(t, program, name)
			count[v.outcome]++
			t.Logf("%s: %s %s", name, v.outcome, v.why)
			if v.outcome != table[name] && (v.outcome != passes || table[name] == "") {
				t.Errorf("the table says %q", table[name])
			}
		})
	}
	t.Log(count)
}

// TestFamilyEnds: with the first process of a restored family all others end, whatever group they are in.
func TestFamilyEnds(t *testing.T) {
	program, _ := nativetest.BuildC(t, "scenes", "c")
	tr := newTrip(t, program)
	tr.start("session01")
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	tr.restore(img)
	pids := descendants(t, tr.pid)
	if len(pids) == 0 {
		t.Fatal("the restored process has no children")
	}
	tr.kill()
	for _, pid := range pids {
		if s, err := proc.Parsed(pid, "stat", procfs.ParseStat); err == nil && !s.Ending() {
			t.Errorf("process %d (%s) is left", pid, s.Comm)
		}
	}
}

// descendants lists the children of a process, and theirs.
func descendants(t *testing.T, pid int) (all []int) {
	tids, err := proc.Threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		p, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid))
		for _, word := range strings.Fields(string(p)) {
			child, _ := strconv.Atoi(word)
			all = append(append(all, child), descendants(t, child)...)
		}
	}
	return all
}

// TestSituationsUnprivileged judges as an ordinary user.
func TestSituationsUnprivileged(t *testing.T) {
	if os.Getenv(scenesVar) == "" {
		t.Skip("set " + scenesVar)
	}
	nativetest.BuildC(t, "scenes", "c")
	t.Log(nativetest.Unprivileged(t, "^TestSituations$"))
}
