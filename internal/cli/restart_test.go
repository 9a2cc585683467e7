package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

const limit = 20_000_000 // never reached: the tests end the job

// countJob starts a checkpointable job that counts, and waits until it is up.
func (h *house) countJob(n int, args ...string) (p *proc, id string) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "id")
	args = append([]string{"-np", "3", "-cr", "-jobid-file", file}, args...)
	p = h.start("", append(args, self(h.t), asRank, "count", fmt.Sprint(n))...)
	return p, h.jobID(p, file)
}

func (h *house) jobID(p *proc, file string) (id string) {
	h.t.Helper()
	testenv.Until(h.t, func() string {
		select {
		case <-p.done:
			h.t.Fatalf("ended before all ranks were up:\n%s", p.err)
		default:
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		if id = strings.TrimSpace(string(b)); id == "" {
			return file + " is empty"
		}
		return ""
	})
	return id
}

func began(t *testing.T, out string) (at int) {
	t.Helper()
	line := out[strings.LastIndex(out, "begins at"):]
	if _, err := fmt.Sscanf(line, "begins at %d", &at); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return at
}

func TestCheckpointStopRestart(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-env", "GORUN_TEST_KEPT=kept")
	schema := strings.TrimSpace(h.must("checkpoint", "-stop", id[:8]))
	if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "gorun restart "+schema) {
		t.Fatalf("stopped: exit %d, %s", code, p.err)
	}
	h.nothingLeft()
	for _, spec := range []string{"latest", id[:8], schema, filepath.Dir(schema), id + "/1"} {
		// The program's arguments are given again so that it comes to an end.
		out, errs, code := h.gorun("restart", "-env", "GORUN_TEST_KEPT=kept", spec, "--", self(t), asRank, "count", "1")
		if code != 0 || began(t, out) == 0 || !strings.Contains(out, "kept") {
			t.Errorf("restart %s: exit %d, %q %q", spec, code, out, errs)
		}
		if !strings.Contains(errs, "job "+id+" goes on from snapshot 1, taken ") || strings.Contains(errs, "ended well since") != (spec != "latest") {
			t.Errorf("restart %s says %q", spec, errs)
		}
	}
	for want, args := range map[string][]string{
		"at least one rank": {"restart", "-np", "0", id},
		" on all ranks: each rank has saved one of its own": {"restart", "-np", "5", id},
		"flags come before":  {"restart", id, "-v"},
		"has ended well":     {"restart", "latest"},
		"no such snapshot":   {"restart", "0000"},
		"gorun snapshots":    {"restart", "0000"},
		"no PROGRAM after":   {"restart", id, "--"},
		"there is no such f": {"restart", id, "--", "./nosuch"},
	} {
		if _, errs, code := h.gorun(args...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q, want %q", args, code, errs, want)
		}
	}
	image := filepath.Join(filepath.Dir(schema), "rank-00001.img")
	if out := h.must("image", "inspect", image); !strings.Contains(out, "1 of 3") || !strings.Contains(out, "sum") {
		t.Errorf("inspect: %s", out)
	}
	if out := h.must("snapshots", "-verify", id); !strings.Contains(out, " ok\n") {
		t.Errorf("verify: %s", out)
	}
	if err := os.Truncate(image, 100); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("restart", id); code != 1 || !strings.Contains(errs, "rank 1: image "+image) {
		t.Errorf("restart from a truncated image: exit %d, %s", code, errs)
	}
	if out, _, code := h.gorun("snapshots", "-verify"); code != 1 || !strings.Contains(out, "damaged") {
		t.Errorf("verify of a truncated image: exit %d, %s", code, out)
	}
}

// A rank and an agent die, and the job goes on each time from its newest
// snapshot.
// Snapshots name the program that runs, not what has become of its file since.
func TestProgramReplaced(t *testing.T) {
	h := newHouse(t)
	program := filepath.Join(t.TempDir(), "program")
	copyFile(t, self(t), program)
	digest, err := snapshot.FileDigest(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "2", "-cr", "-jobid-file", file, program, asRank, "count", fmt.Sprint(limit))
	id := h.jobID(p, file)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	removed := h.must("checkpoint", id)
	if err := os.WriteFile(program, []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	rebuilt := h.must("checkpoint", "-stop", id)
	for _, schema := range []string{removed, rebuilt} {
		s, err := snapshot.ReadSchema(strings.TrimSpace(schema))
		if err != nil {
			t.Fatal(err)
		}
		if s.Program.Digest != digest {
			t.Errorf("the snapshot names the program %s, it is %s", s.Program.Digest, digest)
		}
	}
	if code := p.code(); code != 75 {
		t.Errorf("exit %d\n%s", code, p.err)
	}
	h.nothingLeft()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRestarts(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-restarts", "2", "-agents", "2", "-keep", "1")
	for i, victim := range []string{"rank", "agent"} {
		h.must("checkpoint", id)
		agents, ranks := p.family()
		pid := ranks[1]
		if victim == "agent" {
			pid = agents[0]
		}
		syscall.Kill(pid, syscall.SIGKILL)
		p.err.wait(t, fmt.Sprintf("restarting from snapshot %d (%d of at most 2)", i+1, i+1), 1)
		p.out.wait(t, "begins at", i+2)
		if began(t, p.out.String()) == 0 {
			t.Error("begins from the start")
		}
		testenv.Until(t, func() string {
			if out := h.must("status", id); strings.Count(out, ": running") < 3 {
				return "not running again:\n" + out
			}
			return ""
		})
	}
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml")); len(left) != 1 {
		t.Errorf("-keep 1 keeps %v", left)
	}
	_, ranks := p.family()
	syscall.Kill(ranks[0], syscall.SIGKILL)
	if code := p.code(); code != 137 {
		t.Errorf("the third death: exit %d\n%s", code, p.err)
	}
	h.nothingLeft()
}

// A snapshot that is whole, and from which the program ends again and again, is left for the one before.
func TestRestartLeavesWhatIsOfNoUse(t *testing.T) {
	h := newHouse(t)
	file, dir := filepath.Join(t.TempDir(), "id"), t.TempDir()
	p := h.start("", "-np", "1", "-cr", "-restarts", "9", "-jobid-file", file, self(t), asRank, "spoil", filepath.Join(dir, "spoil"))
	id := h.jobID(p, file)
	h.must("checkpoint", id)
	if err := os.WriteFile(filepath.Join(dir, "spoil"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.out.wait(t, "spoilt", 1)
	h.must("checkpoint", id)
	_, ranks := p.family()
	syscall.Kill(ranks[0], syscall.SIGKILL)
	for _, says := range []string{
		"rank 0 was killed by signal 9 (SIGKILL); restarting from snapshot 2 (1 of at most 9)",
		"rank 0 exited with status 1; restarting from snapshot 2 (2 of at most 9)",
		"rank 0 exited with status 1; restarting from snapshot 1, as 2 restarts from snapshot 2 have ended alike (3 of at most 9)",
	} {
		p.err.wait(t, says, 1)
	}
	testenv.Until(t, func() string { // it goes on
		if c := h.start("", "checkpoint", id); c.code() != 0 {
			return c.err.String()
		}
		return ""
	})
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// A portable snapshot that looks whole and cannot be read is found out before
// ranks start: the one before takes its place, and it costs no restart.
func TestRestartPassesOverDamage(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-restarts", "3")
	h.must("checkpoint", id)
	damage(t, strings.TrimSpace(h.must("checkpoint", id)))
	_, ranks := p.family()
	syscall.Kill(ranks[0], syscall.SIGKILL)
	p.err.wait(t, "snapshot 2 cannot be used: rank 1:", 1)
	p.err.wait(t, "restarting from snapshot 1 (1 of at most 3)", 1)
	p.out.wait(t, "begins at", 2)
	testenv.Until(t, func() string { // it may just be becoming another incarnation
		k := h.start("", "kill", id)
		if k.code() != 0 {
			return k.err.String()
		}
		return ""
	})
	p.code()
	h.nothingLeft()
}

// The same with gorun restart, where the user means the newest one.
func TestRestartOfTheNewestPassesOverDamage(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	h.must("checkpoint", id)
	schema := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	p.code()
	damage(t, schema)
	for _, spec := range []string{"latest", id, id + "/latest", filepath.Dir(filepath.Dir(schema))} {
		out, errs, code := h.gorun("restart", spec, "--", self(t), asRank, "count", "1")
		if code != 0 || began(t, out) == 0 || !strings.Contains(errs, "snapshot 2 of job "+id+" cannot be used: rank 1:") {
			t.Errorf("%s: exit %d, %s %s", spec, code, out, errs)
		}
	}
	for _, spec := range []string{id + "/2", schema} { // this one is meant
		out, errs, code := h.gorun("restart", spec, "--", self(t), asRank, "count", "1")
		if code != 1 || out != "" || !strings.Contains(errs, "rank 1:") {
			t.Errorf("%s: exit %d, %s %s", spec, code, out, errs)
		}
	}
	// The newest lies where another belongs.
	if err := os.Rename(filepath.Dir(schema), filepath.Join(filepath.Dir(filepath.Dir(schema)), "7")); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.gorun("restart", id, "--", self(t), asRank, "count", "1")
	if code != 0 || began(t, out) == 0 || !strings.Contains(errs, "passed over for an older snapshot: ") || !strings.Contains(errs, "goes on from snapshot 1,") {
		t.Errorf("misplaced: exit %d, %s %s", code, out, errs)
	}
	h.nothingLeft()
}

// And of whole processes, whose data nothing else reads before ranks are started.
func TestRestartOfTheNewestProcessesPassesOverDamage(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "2", "-cr=native", "-jobid-file", file, self(t), asRank, "hang")
	id := h.jobID(p, file)
	h.must("checkpoint", id)
	schema := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	p.code()
	if _, errs, code := h.gorun("restart", "-np", "3", schema); code != 2 || !strings.Contains(errs, "was taken on 2 ranks: its images are of whole processes (native)") {
		t.Errorf("another number of processes: exit %d, %s", code, errs)
	}
	damage(t, schema)
	file = filepath.Join(t.TempDir(), "id") // the other holds the id already
	p = h.start("", "restart", "-jobid-file", file, id)
	h.jobID(p, file)
	if errs := p.err.String(); !strings.Contains(errs, "snapshot 2 of job "+id+" cannot be used: rank 1:") || !strings.Contains(errs, "goes on from snapshot 1,") {
		t.Errorf("%s", errs)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// damage changes a byte of rank 1's image such that only reading all finds it.
func damage(t *testing.T, schema string) {
	t.Helper()
	s, err := snapshot.Load(filepath.Dir(schema))
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(s.ImagePath(1))
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		i := (n + len(good)/2) % len(good) // the table is at the ends
		if good[i] == 0 {
			continue // most of a small image is room between its parts
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := os.WriteFile(s.ImagePath(1), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if s.Check() != nil {
			continue
		}
		if err := s.Verify(nil); err != nil && strings.Contains(err.Error(), "section") {
			return
		}
	}
	t.Fatal("no byte of the image is what only reading finds")
}

// Without a snapshot a job is started again from the start.
func TestRestartFromTheStart(t *testing.T) {
	h := newHouse(t)
	flag := filepath.Join(t.TempDir(), "flag")
	p := h.start("", "-np", "2", "-restarts", "1", "sh", "-c", `mkdir "$0" 2>/dev/null && exit 3; sleep 0; echo fine`, flag)
	if code := p.code(); code != 0 || !strings.Contains(p.err.String(), "from the start (1 of at most 1)") {
		t.Errorf("exit %d: %s", code, p.err)
	}
	if got := strings.Count(p.out.String(), "fine\n"); got < 2 {
		t.Errorf("%q", p.out)
	}
	h.nothingLeft()
}

// Two restarts of one snapshot run side by side and are told apart by their
// incarnations.
func TestRestartsSideBySide(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	h.must("checkpoint", "-stop", id)
	p.code()
	dir := t.TempDir()
	var both [2]*proc
	for i := range both {
		file := filepath.Join(dir, fmt.Sprint(i))
		both[i] = h.start("", "restart", "-files", "copy", "-jobid-file", file, "latest")
		if got := h.jobID(both[i], file); got != id {
			t.Errorf("restart has the id %s, the job %s", got, id)
		}
	}
	q := h.start("", "checkpoint", id)
	if code := q.code(); code != 1 || strings.Count(q.err.String(), "(of "+id+")") != 2 {
		t.Fatalf("two fit: exit %d, %s", code, q.err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(h.must("ps")) {
		f := strings.Fields(line)
		if f[0] != id {
			continue
		}
		schema := h.must("checkpoint", f[1])
		if seen[schema] {
			t.Errorf("%s is of both", schema)
		}
		seen[schema] = true
		h.must("kill", f[1])
	}
	if len(seen) != 2 {
		t.Errorf("snapshots %v", seen)
	}
	for _, p := range both {
		if code := p.code(); code != 143 {
			t.Errorf("exit %d: %s", code, p.err)
		}
	}
	h.nothingLeft()
}

func TestCheckpointOnSignalAndTimer(t *testing.T) {
	h := newHouse(t)
	p, _ := h.countJob(limit, "-ckpt-on-signal", "USR2", "-ckpt-every", "20ms", "-v")
	p.err.wait(t, "checkpoint: committed", 2)
	p.signal(syscall.SIGUSR2)
	if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "checkpointed and stopped") {
		t.Errorf("exit %d: %s", code, p.err)
	}
	h.nothingLeft()
}

// A folder that cannot be written fails the checkpoint and not the job.
func TestCheckpointFails(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.ckpt = file // not a folder
	p, id := h.countJob(limit)
	q := h.start("", "checkpoint", id)
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "no folder for the snapshot") {
		t.Errorf("exit %d: %s", code, q.err)
	}
	if out := h.must("status", id); strings.Count(out, ": running") != 3 {
		t.Errorf("the job does not go on: %s", out)
	}
	h.must("kill", "-9", id)
	p.code()
	h.nothingLeft()
}

// Periodic checkpoints that fail are told once, and again when they do not fail
// any more.
func TestPeriodicCheckpointFails(t *testing.T) {
	h := newHouse(t)
	h.ckpt = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(h.ckpt, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, id := h.countJob(limit, "-ckpt-every", "5ms")
	p.err.wait(t, "the periodic checkpoint failed, the job goes on", 1)
	for range 5 { // each is an attempt that fails, too
		if q := h.start("", "checkpoint", id); q.code() != 1 {
			t.Fatal("a checkpoint has been stored in a file")
		}
	}
	if err := os.Remove(h.ckpt); err != nil {
		t.Fatal(err)
	}
	p.err.wait(t, "the periodic checkpoint works again", 1)
	if n := strings.Count(p.err.String(), "the periodic checkpoint failed"); n > 2 { // "not a folder", and perhaps once while it comes to be one
		t.Errorf("told %d times:\n%s", n, p.err)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// A checkpoint of a job whose ranks do not come up ends with their names.
func TestCheckpointBeforeInit(t *testing.T) {
	h := newHouse(t)
	p := h.start("-", "-np", "2", "-cr", "sh", "-c", forever, os.Args[0]) // so it may call Init yet
	p.out.wait(t, "up\n", 2)
	q := h.start("", "checkpoint", "-timeout", "50ms")
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "not all ranks are up: ranks 0-1 (rank 0: started)") {
		t.Errorf("exit %d: %s", code, q.err)
	}
	h.must("kill", h.onlyJob())
	p.code()
	h.nothingLeft()
}

// Devices of a restart are named by their IDs or by numbers; portable images go on on cpu:0, too.
func TestOnDevices(t *testing.T) {
	for _, c := range []struct {
		list             string
		portable, native bool // taken
	}{{"1", true, true}, {"opencl:1,cuda:0", true, true}, {"cpu:0", true, false}, {"1,", false, false}, {"cl", false, false}, {"opencl:x", false, false}, {":1", false, false}} {
		var portable, native options
		if err := portable.onDevices(c.list, true); (err == nil) != c.portable || err == nil && !slices.Contains(portable.env, "GORUN_DEVICE="+c.list) {
			t.Errorf("%q: %v, %q", c.list, err, portable.env)
		}
		if err := native.onDevices(c.list, false); (err == nil) != c.native || err == nil && !slices.Equal(native.Devices, strings.Split(c.list, ",")) {
			t.Errorf("%q: %v, %q", c.list, err, native.Devices)
		}
	}
}
