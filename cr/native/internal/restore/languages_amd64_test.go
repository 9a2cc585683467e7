package restore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// languages are programs that do the same steps and are not of Go alone.
var languages = []struct {
	ids, program, how string
	args              []string
	often             bool // only where many cycles are asked for
}{
	{idsSame, "ctrip", "c", strong, false},
	{idsSame, "ctrip", "c-static", strong, true},
	{idsSame, "ctrip", "musl", strong, false},
	{idsSame, "cgotrip", "cgo", nil, false},
	{idsSame, "cgotrip", "cgo-pie", nil, true},
	{idsSame, "cgotrip", "cgo-static", nil, true},
	{idsSame, "pytrip", "python", nil, false},
	{idsNew, "ctrip", "c", weak, false},
	{idsNew, "ctrip", "c-static", weak, true},
	{idsNew, "ctrip", "musl", weak, true},
	{idsNew, "cgotrip", "cgo", nil, false},
	{idsNew, "cgotrip", "cgo-pie", nil, true},
	{idsNew, "cgotrip", "cgo-static", nil, true},
	{idsNew, "pytrip", "python", nil, true},
}

// With other ids some locks are not sure, nor is what has an id in a register.
var strong, weak = []string{"strong"}, []string{"weak"}

// cyclesVar says how often each program of another language is imaged, killed and
// restored.
const cyclesVar = "GORUN_NATIVE_CYCLES"

func languageCycles() int {
	if n, err := strconv.Atoi(os.Getenv(cyclesVar)); err == nil {
		return n
	}
	return 3
}

// TestLanguages: programs of C, and of Go with C, end as if nobody had imaged them, with the ids that
// they had and with new ones.
func TestLanguages(t *testing.T) {
	for _, l := range languages {
		t.Run(l.ids+"-"+l.program+"-"+l.how, func(t *testing.T) {
			if l.often && os.Getenv(cyclesVar) == "" {
				t.Skip("set " + cyclesVar)
			}
			if l.ids == idsSame {
				needPlace(t)
			}
			program, script := nativetest.BuildC(t, l.program, l.how)
			throughCycles(t, program, script, l.args, l.ids)
		})
	}
}

// needPlace skips tests where processes cannot have the ids that they had.
func needPlace(t *testing.T) {
	t.Helper()
	if err := trace.SameIDs(); err != nil {
		t.Skip(err)
	}
}

// throughCycles images a program, kills and restores it, again and again.
func throughCycles(t *testing.T, program string, script, args []string, ids string) {
	cycles := languageCycles()
	perCycle := 4
	steps := strconv.Itoa(cycles*perCycle + 20)
	calm := newTrip(t, program)
	path := filepath.Join(calm.dir, "log")
	calm.start(slices.Concat(script, []string{steps, "30", path}, args)...)
	calm.steps(cycles*perCycle+20, 0)
	sum, log := calm.next("sum "), read(t, path)
	calm.kill()

	tr := newTrip(t, program)
	path = filepath.Join(tr.dir, "log")
	tr.start(slices.Concat(script, []string{steps, "30", path}, args)...)
	for range cycles {
		tr.steps(perCycle, 3)
		img := tr.image(whole.CaptureOptions{})
		tr.steps(1, 1) // it lives on, and what it does now is undone
		tr.kill()
		r := tr.restore(img, func(o *whole.RestoreOptions) { o.Params = map[string]string{ParamIDs: ids} })
		told := ""
		if os.Getuid() != 0 {
			told = othersFiles
		}
		if ids == idsSame && r.Note != told {
			t.Error(r.Note)
		}
		t.Log(r.Note, r.Warn)
		fmt.Fprintln(tr.stdin, "hello")
		tr.next("stdin hello")
	}
	tr.steps(cycles*perCycle+20, 0)
	if got := tr.next("sum "); got != sum {
		t.Errorf("the sum is %s, undisturbed it is %s", got, sum)
	}
	if read(t, path) != log {
		t.Error("the log differs from an undisturbed one")
	}
}

// TestUnprivilegedLanguages does it as an ordinary user, who needs a namespace of users for the ids.
func TestUnprivilegedLanguages(t *testing.T) {
	for _, l := range [][2]string{{"ctrip", "c"}, {"cgotrip", "cgo"}, {"pytrip", "python"}} {
		nativetest.BuildC(t, l[0], l[1])
	}
	out := nativetest.Unprivileged(t, "^TestLanguages$/^(same-ctrip-c|same-cgotrip-cgo|same-pytrip-python|new-ctrip-c)$")
	if strings.Contains(out, "--- SKIP") {
		t.Skip(out)
	}
	if n := strings.Count(out, "    --- PASS: TestLanguages/"); n != 4 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}

// TestTakenIDs: two processes of one agent that had the same ids have them again, each in a place of its
// own. One that had others joins the first.
func TestTakenIDs(t *testing.T) {
	needPlace(t)
	program, _ := nativetest.BuildC(t, "ctrip", "c")
	first := newTrip(t, program)
	first.start("50", "1", filepath.Join(first.dir, "log"))
	first.steps(2, 2)
	img := first.image(whole.CaptureOptions{})
	first.kill()
	third := first.beside(t)
	third.start("50", "1", filepath.Join(third.dir, "log"))
	third.steps(2, 2)
	other := third.image(whole.CaptureOptions{})
	third.kill()

	second := first.beside(t)
	same := func(o *whole.RestoreOptions) {
		o.Params, o.Files = map[string]string{ParamIDs: idsSame}, whole.FilesKeep
	}
	first.restore(img, same)
	second.restore(img, same)
	third.restore(other, same)
	for _, tr := range []*trip{first, second, third} {
		tr.steps(2, 2)
	}
	place := first.threads.PlaceOf
	if a, b, c := place(first.pid), place(second.pid), place(third.pid); a == nil || b == nil || a == b || a != c {
		t.Errorf("they are in %p, %p and %p", a, b, c)
	}
	old, err := state.Read(image.Path(img))
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*trip{first, second} {
		if now, err := state.Read(image.Path(tr.image(whole.CaptureOptions{}))); err != nil || now.PID != old.PID {
			t.Errorf("process %d is %d now: %v", old.PID, now.PID, err)
		}
	}
}

// beside prepares another program of the same agent.
func (tr *trip) beside(t *testing.T) *trip {
	other := &trip{t: t, threads: tr.threads, agent: tr.agent, program: tr.program, dir: t.TempDir(), oob: -1}
	t.Cleanup(other.kill)
	return other
}

func TestCheckIDs(t *testing.T) {
	for given, fine := range map[string]bool{"": true, "auto": true, "same": true, "new": true, "old": false} {
		if err := CheckParams(map[string]string{ParamIDs: given, "tcp.eager": "1"}, "native."); (err == nil) != fine {
			t.Errorf("%q: %v", given, err)
		}
	}
	if CheckParams(map[string]string{"native.idz": "same"}, "native.") == nil {
		t.Error("an unknown parameter was taken")
	}
}
