package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One flipped bit of a schema, as of an argument, is found by -verify, at a restart and by -import.
func TestAlteredSchema(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit)
	path := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	p.code()
	if out := h.must("snapshots", "-verify"); !strings.Contains(out, " ok\n") {
		t.Errorf("as it was written: %s", out)
	}
	file := filepath.Join(t.TempDir(), "parcel")
	h.must("snapshots", "-export", file, id)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(text, []byte(`"`+asRank+`"`))
	if i < 0 {
		t.Fatalf("%s", text)
	}
	text[i+2] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"snapshots", "-verify"}, {"snapshots", "-verify", path}, {"restart", path}, {"restart", "latest"}, {"snapshots", "-import", file}} {
		_, errs, code := h.gorun(args...)
		if code == 0 || !strings.Contains(errs, "damaged or altered since it was written (restart from another snapshot)") {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	h.nothingLeft()
}
