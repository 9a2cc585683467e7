package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// nativeVictim is heat, in memory enough that there is time to be killed while
// it is written.
var nativeVictim = victim{
	cr:      "-cr=native",
	program: []string{"heat", "-n", "400", "-steps", "3000"},
	phases:  []string{"closing", "draining", "capturing", "writing", "committing", "committed"},
	house:   nativeHouse,
}

// TestNativeKill is TestKill for images of whole processes: above all, no copy
// and no stopped process may be left. GORUN_NATIVE_KILLS sets how many.
func TestNativeKill(t *testing.T) {
	needNative(t)
	n := 6
	if testing.Short() {
		n = 2
	}
	killMany(t, &nativeVictim, testenv.Number(t, "GORUN_NATIVE_KILLS", n))
}

// TestNativeTwoAtOnce asks many times at once.
func TestNativeTwoAtOnce(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "ring", np: 4})
	const asked = 6
	var wg sync.WaitGroup
	for range asked {
		wg.Go(func() {
			out, errs, code := h.gorun("checkpoint", r.id)
			if code != 0 {
				t.Errorf("checkpoint: exit %d\n%s", code, errs)
			} else if _, err := os.Stat(strings.TrimSpace(out)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	if n := len(schemas); n < 1 || n > asked {
		t.Errorf("%d snapshots for %d requests", n, asked)
	}
	h.alive(r.proc, 4)
	h.signal(dir, "go")
	r.ended()
}

// TestNativeAlone restarts a job of one rank, which has no transport.
func TestNativeAlone(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "ring", np: 1})
	schema := r.checkpoint()
	r.kill()
	r = h.restart(schema)
	h.signal(dir, "go")
	r.ended()
}

// TestNativeInterval checkpoints by the clock, many times over, chains included.
func TestNativeInterval(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "ring", np: 3, flags: []string{"-ckpt-every", "100ms", "-keep", "2", "-ckpt-full-every", "3"}})
	const times = 12
	if !r.errs.wait(": committed", times) {
		t.Fatalf("the job ended early:\n%s", r.errs)
	}
	h.signal(dir, "go")
	r.ended()
	h.must("snapshots", "-verify")
	jobs, err := filepath.Glob(filepath.Join(h.ckpt, "*"))
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	h.must("restart", jobs[0]) // the job has ended well, and is no more what latest means
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	if n := len(schemas); n < 2 || n > 4 { // two, and what they build on
		t.Errorf("%d snapshots are kept", n)
	}
}

// TestNativeGarbage checkpoints a program that has left much behind: an image has what is in use.
func TestNativeGarbage(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "litter", np: 2})
	schema := r.checkpoint()
	for _, im := range readSchema(t, schema).Images {
		if im.Raw > 40<<20 {
			t.Errorf("%d MB of memory are in the image of rank %d, which uses 8", im.Raw>>20, im.Rank)
		}
	}
	r.kill()
	r = h.restart(schema)
	h.signal(dir, "go")
	r.ended()
}

// TestNativeTenTimes checkpoints the restart of a restart of ...
func TestNativeTenTimes(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "collectives", np: 4})
	for round := range 10 {
		schema := r.checkpoint()
		r.kill()
		r = h.restart(schema, carriers[round%len(carriers)]...)
	}
	h.signal(dir, "go")
	r.ended()
	s := readSchema(t, h.newest())
	if len(s.Lineage) != 9 {
		t.Errorf("the tenth snapshot has %d ancestors, want 9", len(s.Lineage))
	}
}

// newest is the schema of the newest snapshot of the only job.
func (h *house) newest() string {
	h.t.Helper()
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	best, most := "", 0
	for _, name := range schemas {
		if n, _ := strconv.Atoi(filepath.Base(filepath.Dir(name))); n > most {
			best, most = name, n
		}
	}
	return best
}

// TestNativeTwins restarts one snapshot twice at the same time, while the job it
// was taken of still runs. It has to be asked for.
func TestNativeTwins(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "stream", np: 3})
	schema := first.checkpoint()
	if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, "second run") {
		t.Errorf("a second run that nobody has asked for: exit %d\n%s", code, errs)
	}
	flags := append(anyCarrier(t), beside...)
	a, b := h.restart(schema, flags...), h.restart(schema, flags...)
	a.checkpoint()
	b.checkpoint()
	h.signal(dir, "go")
	for _, r := range []*run{first, a, b} {
		r.ended()
	}
}

// TestNativeManyRanks images 64 ranks and restarts them right after the kill.
func TestNativeManyRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 64 ranks; skipped with -short")
	}
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "ring", np: 64, flags: append(anyCarrier(t), "-agents", "2")})
	r.checkpoint()
	schema := r.checkpoint()
	r.kill()
	r = h.restart(schema, append(anyCarrier(t), "-agents", "3")...)
	h.signal(dir, "go")
	r.ended()
}

// TestNativeAgain kills a rank of a job that may go on by itself.
func TestNativeAgain(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "collectives", np: 4, flags: append(anyCarrier(t), "-restarts", "3")})
	r.id = r.job // its incarnations change
	for round := range 3 {
		r.checkpoint()
		_, ranks := r.family()
		syscall.Kill(ranks[round], syscall.SIGKILL)
		gone(t, ranks...)
		if !r.errs.wait("ranks are up", 2+round) {
			t.Fatalf("it did not go on by itself:\n%s", r.errs)
		}
	}
	h.signal(dir, "go")
	r.ended()
}

// TestNativeAuto lets gorun choose: a program that has registered its state and
// comes to a Point is saved by itself, any other is imaged.
func TestNativeAuto(t *testing.T) {
	for _, c := range []struct {
		backend string
		program []string
	}{
		{"self", solver("-poisson", "8", "-iters", "60", "-tol", "0", "-slow", "20ms")},
		{"native", []string{filepath.Join(bin, "heat"), "-n", "200", "-steps", "20000"}},
	} {
		t.Run(c.backend, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			want := digest(t, h.must(append([]string{"-np", "3"}, c.program...)...))
			schema := h.stopped("-cr=auto", append([]string{"-np", "3"}, c.program...))
			if got := readSchema(t, schema).Backend; got != c.backend {
				t.Errorf("%s was imaged by %s, want %s", filepath.Base(c.program[0]), got, c.backend)
			}
			if got := digest(t, h.must("restart", schema)); got != want {
				t.Errorf("digest %s, undisturbed %s", got, want)
			}
		})
	}
}

// TestNativeForced images a program that could save itself.
func TestNativeForced(t *testing.T) {
	h := nativeHouse(t)
	problem := solver("-poisson", "8", "-iters", "100", "-tol", "0", "-slow", "10ms")
	want := digest(t, h.must(append([]string{"-np", "3"}, problem...)...))
	schema := h.stopped("-cr=native", append([]string{"-np", "3"}, problem...))
	if got := readSchema(t, schema).Backend; got != "native" {
		t.Errorf("it was imaged by %s", got)
	}
	if got := digest(t, h.must("restart", schema)); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
}

var debugLine = regexp.MustCompile(`dlv attach (\d+)`)

// TestNativeDebug holds a rank before it goes on.
func TestNativeDebug(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "collectives", np: 4})
	schema := first.checkpoint()
	first.kill()
	h.signal(dir, "go")
	p := h.start("restart", "-v", "-debug", "2", schema)
	if !p.errs.wait("dlv attach", 1) {
		t.Fatalf("nobody tells how to debug:\n%s", p.errs)
	}
	pid, _ := strconv.Atoi(debugLine.FindStringSubmatch(p.errs.String())[1])
	h.awaitHeld(pid)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.errs)
	}
	digest(t, p.out.String())
}

// awaitHeld waits until a process is stopped, for a debugger.
func (h *house) awaitHeld(pid int) {
	h.t.Helper()
	h.eventually("the rank is not held", func() string {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return err.Error()
		}
		if state := field(text, "State:"); !strings.HasPrefix(state, "T") || field(text, "TracerPid:") != "0" {
			return state + ", traced by " + field(text, "TracerPid:")
		}
		return ""
	})
}

// TestNativeDebugAttended holds a program that knows nothing of gorun, and not gorun, which attends it.
func TestNativeDebugAttended(t *testing.T) {
	h := nativeHouse(t)
	dir := h.folder("stage")
	const script = `n=0; while [ ! -e "$0/go" ]; do n=$((n+1)); echo "here $n" >&2; sleep 0.01; done`
	r := h.nativeRun(2, nil, "/bin/sh", "-c", script, dir)
	r.inPlace(2)
	if out := h.must("status", r.id); strings.Count(out, "running /bin/sh") != 2 {
		t.Errorf("the ranks are said to do something else:\n%s", out)
	}
	schema := r.checkpoint("-stop")
	r.wait()
	h.signal(dir, "go")
	p := h.start("restart", "-debug", "1", schema)
	if !p.errs.wait("gdb -p", 1) {
		t.Fatalf("nobody tells how to debug:\n%s", p.errs)
	}
	pid, _ := strconv.Atoi(debugLine.FindStringSubmatch(p.errs.String())[1])
	h.awaitHeld(pid)
	if args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err != nil || !strings.HasPrefix(string(args), "/bin/sh\x00-c\x00") {
		t.Errorf("held is %q, %v", args, err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.errs)
	}
}

// TestNativeClockBehind restarts where the monotonic clock is behind that of the
// image, as after a reboot.
func TestNativeClockBehind(t *testing.T) {
	h := rootHouse(t)
	uptime := clockSeconds(t)
	if uptime < 120 {
		t.Skipf("the machine is up for %d s only", uptime)
	}
	h.wrap = []string{"unshare", "--time", "--monotonic", strconv.Itoa(-uptime / 2), "--boottime", strconv.Itoa(-uptime / 2), "--fork", "--kill-child"}
	if out, _, code := h.gorun("version"); code != 0 {
		t.Skipf("no time namespace can be made: %s", out)
	}
	wrap := h.wrap
	h.wrap = nil
	first, dir := h.stage(&scene{name: "timers", np: 2})
	schema := first.checkpoint()
	first.kill()
	h.wrap = wrap
	p := h.start("restart", "-v", schema)
	h.signal(dir, "go")
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.errs)
	}
}

// clockSeconds is for how long the machine has been up.
func clockSeconds(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	whole, _, _ := strings.Cut(string(text), ".")
	n, err := strconv.Atoi(whole)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
