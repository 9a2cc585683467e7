package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDamagedSchemaListed: a snapshot with a damaged schema has its row, why is said once, and nobody says that there are none.
func TestDamagedSchemaListed(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	path := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	p.code()
	if err := os.WriteFile(path, []byte("not a schema"), 0o600); err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^` + id + ` +1 .* damaged$`)
	for _, args := range [][]string{{}, {"-verify"}, {"-prune"}, {"-prune", "-verify", id}, {id}} {
		out, errs, code := h.gorun(append([]string{"snapshots"}, args...)...)
		if code != 1 || !row.MatchString(out) || strings.Contains(errs, "there are no") || strings.Count(errs, path) != 1 {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
	}
	out, _, _ := h.gorun("snapshots", "-json")
	var rows []listed
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].State != damaged || !strings.Contains(rows[0].Damage, path) {
		t.Errorf("as JSON: %s %v", out, err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, id, "1", "*")); len(left) < 2 {
		t.Errorf("-prune has removed what it could not read: left are %v", left)
	}
	h.nothingLeft()
}

// listed is what is looked at of a snapshot in the list.
type listed struct{ State, Damage string }

// TestTrustWords: what is another's is not touched, and each command says what -trust would have it do.
func TestTrustWords(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	h := newHouse(t)
	p, id := h.countJob(limit)
	path := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	p.code()
	parcel := filepath.Join(t.TempDir(), "parcel")
	h.must("snapshots", "-export", parcel, id)
	job := filepath.Dir(filepath.Dir(path))
	theirs := []string{job, filepath.Dir(path), parcel}
	in, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(theirs, in...) {
		if err := os.Chown(name, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	image := filepath.Join(filepath.Dir(path), "rank-00000.img")
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"-trust takes it, and runs its program as you", []string{"restart", id}},
		{"-trust reads it all the same", []string{"snapshots", "-verify", id}},
		{"-trust reads it all the same", []string{"snapshots", "-export", filepath.Join(t.TempDir(), "p"), id}},
		{"-trust takes it in: a restart of that", []string{"snapshots", "-import", parcel}},
		{"-trust reads it all the same", []string{"image", "inspect", image}},
		{"-trust reads it all the same", []string{"image", "export", "-o", t.TempDir(), id}},
		{"nobody else removes anything of it", []string{"snapshots", "-remove", id}},
		{"nobody else removes anything of it", []string{"snapshots", "-prune", id}},
		{"latest means your own jobs, with -trust too, and jobs of other users in " + h.ckpt + " are left out: 1 of", []string{"restart", "latest"}},
		{"latest means your own jobs, with -trust too, and jobs of other users in " + h.ckpt + " are left out: 1 of", []string{"restart", "-trust", "latest"}},
	} {
		out, errs, code := h.gorun(c.args...)
		if code == 0 || !strings.Contains(errs, c.words) || strings.Contains(errs, "is wanted)") {
			t.Errorf("%q: exit %d, %s%s", c.args, code, out, errs)
		}
		if strings.Contains(c.words, "-trust reads") && strings.Contains(errs, "as you") {
			t.Errorf("%q: %s", c.args, errs)
		}
	}
	if out := h.must("image", "inspect", "-trust", image); !strings.Contains(out, id) {
		t.Errorf("trusted: %s", out)
	}
	h.nothingLeft()
}

// TestRefusedRestart: a restart that is refused does not say before that the job goes on.
func TestRefusedRestart(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	h.must("checkpoint", id)
	again := h.start("", "restart", id)
	if code, errs := again.code(), again.err.String(); code == 0 || strings.Contains(errs, "goes on from snapshot") || !strings.Contains(errs, "running") {
		t.Errorf("exit %d, %s", code, errs)
	}
	h.must("kill", id)
	p.code()
	h.nothingLeft()
}
