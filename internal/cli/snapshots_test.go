package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// TestKindColumn tells full snapshots from those that build on others.
func TestKindColumn(t *testing.T) {
	var out, errs bytes.Buffer
	v := &viewer{std: stdio{out: &out, err: &errs}}
	for _, bases := range [][]int{nil, {7}, {9, 8}} {
		v.rows = append(v.rows, row{Job: "j", Seq: 10, Created: time.Unix(0, 0), NP: 2, Bases: bases, Program: "p"})
	}
	if err := v.print(nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || strings.Count(lines[0], "KIND") != 1 {
		t.Fatal(out.String())
	}
	at := strings.Index(lines[0], "KIND")
	for i, want := range []string{"full", "on 7", "on 9,8"} {
		if !strings.HasPrefix(lines[i+1][at:], want+" ") {
			t.Errorf("%q is not %q", lines[i+1][at:], want)
		}
	}
}

// The only snapshot that is intact survives a prune, though it is not the newest.
func TestPruneKeepsTheIntact(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	h.must("checkpoint", id)
	schema := strings.TrimSpace(h.must("checkpoint", id))
	damage(t, schema)
	h.must("kill", id)
	p.code()
	out, errs, code := h.gorun("snapshots", "-prune", "-verify", id)
	if code != 1 || !strings.Contains(errs, "snapshot 1 of job "+id+" stays, it is the newest that is intact") || strings.Count(out, " ok\n") != 1 {
		t.Errorf("exit %d, %s %s", code, out, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, id, "*", "schema.toml")); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
	h.nothingLeft()
}

// A job's snapshots are removed when it does not run any more; the tails of its
// restarts stay, or are removed on their own.
func TestRemoveSnapshots(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	schema := strings.TrimSpace(h.must("checkpoint", id))
	q := h.start("", "snapshots", "-remove", id)
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "is running") {
		t.Errorf("of a running job: exit %d, %s", code, q.err)
	}
	h.must("kill", id)
	p.code()
	if _, err := os.Stat(schema); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.Open(h.ckpt)
	if err != nil {
		t.Fatal(err)
	}
	var tails []string
	for _, tag := range []string{"0123456789abcdef", "fedcba9876543210"} {
		path := filepath.Join(t.TempDir(), "log.gorun-"+tag+"-tail")
		tails = append(tails, path)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), c.AddTail(id, path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{}, {id[:8]}} {
		if out := h.must(append([]string{"snapshots", "-tails"}, args...)...); out != strings.Join(tails, "\n")+"\n" {
			t.Errorf("-tails %q: %s", args, out)
		}
	}
	if out := h.must("snapshots", "-tails", "-json"); !strings.Contains(out, id) || strings.Count(out, "-tail\"") != 2 {
		t.Errorf("-tails -json: %s", out)
	}
	if out := h.must("snapshots", "-tails", "-remove", id); out != "" {
		t.Errorf("-tails -remove: %s", out)
	}
	for _, path := range tails {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	if err := errors.Join(os.WriteFile(tails[0], nil, 0o600), c.AddTail(id, tails[0])); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("snapshots", "-remove", id); code != 0 || !strings.Contains(errs, tails[0]+" stays") {
		t.Errorf("-remove: exit %d, %s", code, errs)
	}
	if _, err := os.Stat(tails[0]); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, "*")); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	for want, args := range map[string][]string{
		"of which JOB":     {"-remove"},
		"do not go with":   {"-remove", "-prune", id},
		"no such snapshot": {"-remove", id},
	} {
		if _, errs, code := h.gorun(append([]string{"snapshots"}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	h.nothingLeft()
}
