package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// levels asks a job for its levels.
func (h *house) levels(id string) []control.Level {
	h.t.Helper()
	return h.status(id).Levels
}

// status asks a job how it is.
func (h *house) status(id string) (s control.Status) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must("status", "-json", id)), &s); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// even holds a job whose second level has what the first one has.
func (h *house) even(id string) {
	h.t.Helper()
	h.must("hold", id)
	testenv.Until(h.t, func() string {
		s := h.status(id)
		if l := s.Levels; s.Checkpoint != "held" || l[1].Last < l[0].Last || l[1].Copying {
			return fmt.Sprintf("%+v, %q", l, s.Checkpoint)
		}
		return ""
	})
}

// copied returns the newest snapshot of a job that has two copies.
func (h *house) copied(id string) (s *snapshot.Snapshot) {
	h.t.Helper()
	c, err := openCatalogue(h.ckpt)
	if err != nil {
		h.t.Fatal(err)
	}
	all, err := c.List(id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, x := range all {
		if len(x.Copies()) == 2 {
			s = x
		}
	}
	if s == nil {
		h.t.Fatalf("none of %d snapshots has two copies", len(all))
	}
	return s
}

// A copy in the slower level is valid by itself: no call of the program, and no end of the job, is needed. The head is
// killed, images of both copies are damaged or lost and made again, then the nodes lose all: the restart goes on
// from the slower level.
func TestLevels(t *testing.T) {
	h := newHouse(t)
	scratch := t.TempDir()
	p, id := h.countJob(limit, "-ckpt-local", scratch, "-ckpt-every", "node=100ms,dir=300ms", "-keep", "2")
	testenv.Until(t, func() string {
		if l := h.levels(id); len(l) != 2 || l[1].Last < 2 || l[0].Name != "node" {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	if out := h.must("status", id); !strings.Contains(out, "dir every 300ms, beside the schema: snapshot") {
		t.Error(out)
	}
	if out := h.must("status", "-metrics", id); !strings.Contains(out, fmt.Sprintf("\ngorun_level_missing_copies{job=%q,level=\"dir\"} 0\n", id)) || !strings.Contains(out, "gorun_level_bytes_total{") {
		t.Error(out)
	}
	h.even(id) // else the newest in the one may have left the other
	p.signal(syscall.SIGKILL)
	p.code()
	h.nothingLeft()
	s := h.copied(id)
	_, set, err := s.At(s.Copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(scratch, set, s.Schema.Images[0].File)
	b, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := errors.Join(os.WriteFile(damaged, b, 0o600), os.Remove(s.ImagePath(1))); err != nil {
		t.Fatal(err)
	}
	which := fmt.Sprintf("%s/%d", id, s.Schema.Sequence)
	if out, errs, code := h.gorun("snapshots", "-verify", which); code != 0 || strings.Count(out, "(damaged)") != 2 || !strings.Contains(out, " ok\n") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if out, errs, code := h.gorun("snapshots", "-scrub", which); code != 0 || strings.Count(errs, "again") != 2 || strings.Count(out, "(ok)") != 2 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if err := os.RemoveAll(filepath.Join(scratch, id)); err != nil {
		t.Fatal(err)
	}
	q := h.start("", "restart", "-ckpt-every", "0", "-ckpt-local", "", "-jobid-file", filepath.Join(h.ckpt, "again"), id)
	h.jobID(q, filepath.Join(h.ckpt, "again"))
	if errs := q.err.String(); !strings.Contains(errs, fmt.Sprintf("goes on from snapshot %d,", s.Schema.Sequence)) {
		t.Error(errs)
	}
	h.must("kill", id)
	q.code()
	h.nothingLeft()
}

// Of each level one image is damaged from end to end: the check before the start finds that. The restart takes the other copy, and no older snapshot.
// All images are full, so that the newest snapshot of the slower level is a copy and not merged.
func TestLevelDamaged(t *testing.T) {
	h := newHouse(t)
	scratch, file := t.TempDir(), filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "2", "-cr=native", "-jobid-file", file, "-ckpt-local", scratch, "-ckpt-full-every", "1", "-ckpt-every", "node=100ms,dir=200ms", self(t), asRank, "count", fmt.Sprint(limit))
	id := h.jobID(p, file)
	testenv.Until(t, func() string {
		if l := h.levels(id); len(l) != 2 || l[1].Last < 2 {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	h.even(id)
	p.signal(syscall.SIGKILL)
	p.code()
	s := h.copied(id)
	_, set, err := s.At(s.Copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(scratch, set, s.Schema.Images[0].File), s.ImagePath(1)} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 4096; i < len(b)-8192; i += 512 { // all but what tells that it is an image
			b[i] ^= 1
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := h.start("", "restart", "-ckpt-every", "0", "-ckpt-local", "", "-jobid-file", file+"2", id)
	h.jobID(q, file+"2")
	if errs := q.err.String(); !strings.Contains(errs, fmt.Sprintf("goes on from snapshot %d,", s.Schema.Sequence)) || strings.Contains(errs, "cannot be used") {
		t.Error(errs)
	}
	h.must("kill", id)
	q.code()
	h.nothingLeft()
}

// Snapshots in memory end with the job. What was copied from there is whole, and the restart goes on from it. Others neither read nor
// remove what a running job has in memory; it leaves the list when gorun was killed.
func TestLevelOfMemory(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-ckpt-mirror", "none", "-ckpt-every", "mem=100ms,dir=300ms", "-keep", "2")
	p.err.wait(t, "checkpoints in memory take, two snapshots in turn and one that is being copied", 1)
	testenv.Until(t, func() string {
		if l := h.levels(id); len(l) != 2 || l[1].Last < 2 || l[0].Where != "mem" {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	h.even(id)
	for _, flags := range [][]string{{"-verify"}, {"-scrub"}, {"-prune", "-keep", "1", "-verify"}} {
		out := h.must(append(append([]string{"snapshots"}, flags...), id)...)
		if !strings.Contains(out, "mem (in memory, not read); beside the schema (ok)") || strings.Contains(out, "damaged") {
			t.Errorf("%v: %s", flags, out)
		}
	}
	p.signal(syscall.SIGKILL)
	p.code()
	h.nothingLeft()
	if out, errs, code := h.gorun("snapshots", "-verify", id); code != 0 || strings.Contains(out, "mem") || !strings.Contains(errs, "in memory, which a crash has left") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	q := h.start("", "restart", "-jobid-file", filepath.Join(h.ckpt, "again"), id)
	h.jobID(q, filepath.Join(h.ckpt, "again"))
	h.must("checkpoint", "-stop", id)
	if code := q.code(); code != 75 || !strings.Contains(q.err.String(), "goes on from snapshot") {
		t.Errorf("exit %d, %s", code, q.err)
	}
	c, err := openCatalogue(h.ckpt)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Latest(id)
	if err != nil || s.Verify(nil) != nil {
		t.Errorf("%v, %v", s, err)
	}
	h.nothingLeft()
}

// With auto each level has an interval of its own, by what was measured. status tells, and the restart has the same.
func TestLevelsAuto(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-v", "-ckpt-local", t.TempDir(), "-ckpt-every", "dir=auto,node=auto", "-mtbf", "2s")
	testenv.Until(t, func() string {
		l := h.levels(id)
		if len(l) != 2 || l[0].Name != "node" || !l[0].Auto || l[0].Every <= 0 || l[1].Every <= 0 || l[1].Last < 2 {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	p.err.wait(t, "checkpoints: node every ", 1)
	if out := h.must("status", id); !strings.Contains(out, "(auto), beside the schema") {
		t.Error(out)
	}
	p.signal(syscall.SIGKILL)
	p.code()
	q := h.start("", "restart", "-jobid-file", filepath.Join(h.ckpt, "again"), id)
	h.jobID(q, filepath.Join(h.ckpt, "again"))
	if l := h.levels(id); len(l) != 2 || !l[1].Auto {
		t.Errorf("%+v", l)
	}
	h.must("kill", id)
	q.code()
	h.nothingLeft()
}

// Images that a level loses while the job runs are made again from another, without a command.
func TestLevelMended(t *testing.T) {
	h := newHouse(t)
	scratch := t.TempDir()
	p, id := h.countJob(limit, "-ckpt-local", scratch, "-ckpt-every", "node=100ms,dir=200ms", "-keep", "2", "-heartbeat", "100ms")
	testenv.Until(t, func() string {
		if l := h.levels(id); l[1].Last < 2 {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	h.must("hold", id) // no newer snapshot, except one that is being written
	testenv.Until(t, func() string {
		s := h.status(id)
		if l := s.Levels; s.Checkpoint != "held" || l[1].Last < l[0].Last || l[1].Copying {
			return fmt.Sprintf("%+v, %q", l, s.Checkpoint)
		}
		return ""
	})
	s := h.copied(id)
	_, set, err := s.At(s.Copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	near, far := filepath.Join(scratch, set, s.Schema.Images[0].File), s.ImagePath(1)
	if err := errors.Join(os.Remove(near), os.Remove(far)); err != nil {
		t.Fatal(err)
	}
	p.err.wait(t, "level node has lost images, and 1 were made again", 1)
	p.err.wait(t, "level dir has lost images, and 1 were made again", 1)
	if out := h.must("snapshots", "-verify", fmt.Sprintf("%s/%d", id, s.Schema.Sequence)); !strings.Contains(out, " ok\n") {
		t.Error(out)
	}
	// With both copies of an image gone there is nothing to make it of, which is told.
	if err := errors.Join(os.Remove(filepath.Join(scratch, set, s.Schema.Images[1].File)), os.Remove(far)); err != nil {
		t.Fatal(err)
	}
	p.err.wait(t, "less protection than asked for: level dir has lost images of snapshot", 1)
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}

// A level that fails is told and tried again. The job goes on, and its other level gets snapshots.
func TestLevelFails(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	far, stores := filepath.Join(dir, "far"), filepath.Join(dir, "stores.toml")
	text := fmt.Sprintf("[far]\nkind = 'dir'\nfolder = %q\nkeep = 1\n", far)
	if err := errors.Join(os.WriteFile(far, nil, 0o600), os.WriteFile(stores, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	p, id := h.countJob(limit, "-ckpt-every", "dir=100ms,far=200ms", "-stores", stores, "-keep", "3")
	p.err.wait(t, "less protection than asked for: level far", 1)
	if out := h.must("status", id); !strings.Contains(out, "LESS PROTECTION") {
		t.Error(out)
	}
	at := h.levels(id)[0].Last
	testenv.Until(t, func() string {
		if l := h.levels(id); l[0].Last <= at {
			return "no further snapshot"
		}
		return ""
	})
	if err := os.Remove(far); err != nil {
		t.Fatal(err)
	}
	p.err.wait(t, "level far gets snapshots again", 1)
	h.must("checkpoint", "-stop", id) // the last one goes to the strongest level before the end
	if code := p.code(); code != 75 {
		t.Errorf("exit %d, %s", code, p.err)
	}
	c, err := openCatalogue(h.ckpt)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Latest(id)
	if err != nil || len(s.Copies()) != 2 || s.Only(s.Copies()[1]).Verify(nil) != nil {
		t.Errorf("%+v, %v", s, err)
	}
	h.nothingLeft()
}

// Where the strongest level cannot have the last snapshot of a job that has failed, the next one gets it: it is in memory, and would be lost.
// What gorun says of it begins lines of its own, though the ranks have left one unfinished.
func TestLastLevelFails(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	far, stores := filepath.Join(dir, "far"), filepath.Join(dir, "stores.toml")
	text := fmt.Sprintf("[far]\nkind = 'dir'\nfolder = %q\n", far)
	if err := errors.Join(os.WriteFile(far, nil, 0o600), os.WriteFile(stores, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "id")
	p := h.start("", "-np", "3", "-cr", "-jobid-file", file, "-ckpt-mirror", "none", "-ckpt-every", "mem=100ms,dir=1h,far=2h", "-stores", stores,
		"sh", "-c", `printf unfinished >&2; exec "$0" "$@"`, self(t), asRank, "count", fmt.Sprint(limit))
	id := h.jobID(p, file)
	testenv.Until(t, func() string {
		if l := h.levels(id); l[0].Last < 2 {
			return fmt.Sprintf("%+v", l)
		}
		return ""
	})
	if err := syscall.Kill(h.status(id).Ranks[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit %d, %s", code, p.err)
	}
	if errs := p.err.String(); !strings.Contains(errs, "level far did not get snapshot") || !strings.Contains(errs, "\ngorun: level dir has snapshot") || strings.Contains(errs, "unfinishedgorun") {
		t.Error(errs)
	}
	c, err := openCatalogue(h.ckpt)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Latest(id); err != nil || s.Verify(nil) != nil {
		t.Errorf("%v, %v", s, err)
	}
	h.nothingLeft()
}

// A job whose images were open goes on with a key, in the same folder: what lies there of before is no leftover.
func TestSealedLater(t *testing.T) {
	h := newHouse(t)
	scratch, key, again := t.TempDir(), filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "id")
	h.must("key", key)
	p, id := h.countJob(limit, "-ckpt-local", scratch)
	h.must("checkpoint", "-stop", id)
	if code := p.code(); code != 75 {
		t.Fatalf("exit %d, %s", code, p.err)
	}
	q := h.start("", "restart", "-ckpt-key", key, "-jobid-file", again, id)
	h.jobID(q, again)
	h.must("checkpoint", "-stop", id)
	if code := q.code(); code != 75 {
		t.Fatalf("exit %d, %s", code, q.err)
	}
	for range 2 {
		if out, errs, code := h.gorun("snapshots", "-verify", id); code != 0 || strings.Count(out, " ok\n") != 2 || strings.Contains(errs, "crash") {
			t.Errorf("exit %d, %s%s", code, out, errs)
		}
	}
	h.must("snapshots", "-remove", id)
	if left, err := filepath.Glob(filepath.Join(scratch, "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	h.nothingLeft()
}

// A job that ends well while a copy is being made leaves nothing of that.
func TestLastCopyGivenUp(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	far, stores, end, file := filepath.Join(dir, "far"), filepath.Join(dir, "stores.toml"), filepath.Join(dir, "end"), filepath.Join(dir, "id")
	text := fmt.Sprintf("[far]\nkind = 'dir'\nfolder = %q\nrate = '100B/s'\n", far)
	if err := os.WriteFile(stores, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := h.start("", "-np", "2", "-cr", "-jobid-file", file, "-ckpt-every", "dir=100ms,far=200ms", "-stores", stores, self(t), asRank, "until", end)
	id := h.jobID(p, file)
	testenv.Until(t, func() string {
		if found, _ := filepath.Glob(filepath.Join(far, id, "*", "*", "*")); len(found) == 0 {
			return "no copy is being made"
		}
		return ""
	})
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit %d, %s", code, p.err)
	}
	if found, err := filepath.Glob(filepath.Join(far, id, "*", "*")); err != nil || len(found) > 0 {
		t.Errorf("left: %q, %v", found, err)
	}
	h.nothingLeft()
}

// Levels that cannot be meant are refused before anything starts.
func TestLevelsRefused(t *testing.T) {
	h := newHouse(t)
	for want, args := range map[string][]string{
		"give -ckpt-local":  {"-ckpt-every", "node=1m,dir=10m"},
		"which other nodes": {"-ckpt-every", "mem=5s,dir=10m"},
		"survives less":     {"-ckpt-local", "/scratch", "-ckpt-every", "dir=1m,node=10m"},
		"no such file":      {"-ckpt-every", "dir=1m", "-stores", "/nowhere/stores.toml"},
		"is NAME=DURATION":  {"-ckpt-every", "dir=1m,10m"},
		"is for a level no": {"-ckpt-local", "/scratch", "-ckpt-every", "dir=1m"},
		"is for a level s3": {"-ckpt-store", "s3://bucket/p", "-ckpt-every", "dir=1m"},
		"the rack of node":  {"-racks", stored(t, "a b r1\n"), "-ckpt-every", "mem=1s,dir=1m", "-stores", stored(t, "[mem]\nmirror = 'rack'\n")},
		"is no level of":    {"-ckpt-every", "10m", "-stores", stored(t, "[dir]\nkeep = 1\n")},
		"unknown key \"dir": {"-ckpt-every", "dir=10m", "-stores", stored(t, "[dir]\ncopies = 1\n")},
	} {
		_, errs, code := h.gorun(append(append([]string{"-cr"}, args...), "true")...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}

// What a level lacks on this machine is told at the start, with the remedy, and not at each checkpoint.
func TestLevelLacks(t *testing.T) {
	h := newHouse(t)
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "")
	}
	_, errs, code := h.gorun("-cr", "-ckpt-every", "dir=1m,s3=10m", "-ckpt-store", "s3://bucket/p", "true")
	if code != 1 || !strings.Contains(errs, "level s3: ") || !strings.Contains(errs, "AWS_ACCESS_KEY_ID") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// stored writes a file for -stores.
func stored(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "stores.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// merged lists the snapshots of a job that were merged of others: every other number is reserved for them. One that is removed meanwhile is left out.
func (h *house) merged(id string) []*snapshot.Snapshot {
	c, err := openCatalogue(h.ckpt)
	if err != nil {
		return nil
	}
	all, _ := c.List(id)
	return slices.DeleteFunc(all, func(s *snapshot.Snapshot) bool { return s.Schema.Sequence%2 == 1 || s.Place() != snapshot.Beside })
}

// A slower level does not depend on the increments of a faster one: it gets them merged. What the faster level has may be
// pruned, and be lost: the job goes on from the slower one alone.
func TestLevelStandsAlone(t *testing.T) {
	h := newHouse(t)
	scratch, file := t.TempDir(), filepath.Join(t.TempDir(), "id")
	p := h.start("", "-v", "-np", "2", "-cr=native", "-jobid-file", file, "-ckpt-local", scratch, "-ckpt-every", "node=50ms,dir=2s", "-keep", "1", "-ckpt-full-every", "1000",
		self(t), asRank, "count", fmt.Sprint(limit))
	id := h.jobID(p, file)
	testenv.Until(t, func() string {
		if l := h.levels(id); len(l) != 2 || l[1].Last < 3 || len(h.merged(id)) == 0 {
			return fmt.Sprintf("%+v, and nothing was merged", l)
		}
		return ""
	})
	p.signal(syscall.SIGKILL)
	p.code()
	h.nothingLeft()
	if said := p.err.String(); strings.Contains(said, "and nothing merged") {
		t.Error(said)
	}
	if merged := h.merged(id); len(merged) == 0 {
		t.Error("what was merged for the slower level is gone")
	} else if err := merged[len(merged)-1].Verify(nil); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(scratch, id)); err != nil {
		t.Fatal(err)
	}
	q := h.start("", "restart", "-ckpt-every", "0", "-ckpt-local", "", "-jobid-file", file+"2", id)
	h.jobID(q, file+"2")
	if errs := q.err.String(); !strings.Contains(errs, "goes on from snapshot ") {
		t.Error(errs)
	}
	h.must("kill", id)
	q.code()
	h.nothingLeft()
}
