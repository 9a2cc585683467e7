package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNativeBytes gives names that are not UTF-8 to the program, its arguments, its
// files and the folder of the snapshots: they are bytes, and all comes back.
func TestNativeBytes(t *testing.T) {
	h := nativeHouse(t)
	h.ckpt = filepath.Join(h.ckpt, "\xff")
	dir := h.folder("caf\xe9")
	program := filepath.Join(dir, "\xe9t\xe9")
	if err := os.Link(filepath.Join(bin, "subject"), program); err != nil {
		t.Fatal(err)
	}
	r := h.nativeRun(2, nil, program, "-dir", dir, "files")
	r.inPlace(2)
	schema := r.checkpoint()
	r.kill()
	if want := h.ckpt + "/"; !strings.HasPrefix(schema, want) {
		t.Errorf("schema %q, want it in %q", schema, want)
	}
	if p := readSchema(t, schema).Program; p.Path != program || p.Args[1] != dir {
		t.Errorf("schema: %+v", p)
	}
	h.signal(dir, "go")
	out := h.must("restart", schema)
	if digest(t, out) == "" {
		t.Errorf("no result: %q", out)
	}
	for _, name := range []string{"plain", "added"} {
		holds(t, filepath.Join(dir, name), written(20))
	}
	if out := h.must("snapshots"); !strings.Contains(out, `"\xe9t\xe9"`) {
		t.Errorf("listed as %q", out)
	}
}
