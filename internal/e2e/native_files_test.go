package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// written is what the scene "files" leaves in a file after so many lines.
func written(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// holds checks the content of a file.
func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %d bytes, want %d: %v\n%s", filepath.Base(path), len(got), len(want), err, got)
	}
}

// theOnly is the one file that fits a pattern.
func theOnly(t *testing.T, pattern string) string {
	t.Helper()
	all, _ := filepath.Glob(pattern)
	if len(all) != 1 {
		t.Fatalf("%s: %v, want one file", filepath.Base(pattern), all)
	}
	return all[0]
}

// TestNativeFiles does to open files, between a snapshot and its restart, what
// happens to files.
func TestNativeFiles(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(path string) error // of the file "plain", which has ten lines
		refused string                  // what a restart says, "": it goes on
		flags   []string                // with which it goes on all the same
	}{
		{"as it was", func(string) error { return nil }, "", nil},
		{"longer", func(p string) error { return os.WriteFile(p, []byte(written(15)), 0o600) }, "", nil},
		{"missing", os.Remove, "missing", nil},
		{"shorter", func(p string) error { return os.Truncate(p, 10) }, "it has 10 bytes", []string{"-files", "keep"}},
		{"empty", func(p string) error { return os.Truncate(p, 0) }, "it has 0 bytes", []string{"-files", "keep"}},
		{"replaced", func(p string) error {
			if err := os.Rename(p, p+".old"); err != nil {
				return err
			}
			if err := os.WriteFile(p, []byte(written(10)), 0o600); err != nil {
				return err
			}
			if os.Getuid() != 0 {
				return nil
			}
			return os.Chown(p, nobody, nobody)
		}, "", nil},
		{"a folder now", func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Mkdir(p, 0o700)
		}, "plain", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			r, dir := h.stage(&scene{name: "files", np: 2})
			schema := r.checkpoint()
			r.kill()
			h.signal(dir, "go")
			plain := filepath.Join(dir, "plain")
			if err := c.change(plain); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(plain)
			out, errs, code := h.gorun("restart", schema)
			if c.refused != "" {
				if code == 0 || !strings.Contains(errs, plain) || !strings.Contains(errs, c.refused) || !strings.Contains(errs, "rank 0") {
					t.Errorf("exit %d\n%s", code, errs)
				}
				if after, _ := os.ReadFile(plain); string(after) != string(before) {
					t.Error("a refused restart has changed the file")
				}
				if c.flags != nil {
					digest(t, h.must(append(append([]string{"restart"}, c.flags...), schema)...))
				}
				return
			}
			if code != 0 || digest(t, out) == "" {
				t.Fatalf("exit %d\n%s", code, errs)
			}
			holds(t, plain, written(20))
			holds(t, filepath.Join(dir, "added"), written(20))
			if got := strings.Contains(errs, plain+" is another file"); got != (c.name == "replaced") {
				t.Errorf("told of another file: %v\n%s", got, errs)
			}
			if c.name == "longer" {
				holds(t, theOnly(t, plain+".gorun-*"), strings.TrimPrefix(written(15), written(10)))
			}
		})
	}
}

// TestNativeFilesGoneOn restarts a snapshot of a run that has gone on writing: its
// files are cut, and what is cut off is kept; or copies are written to, and
// the files left alone.
func TestNativeFilesGoneOn(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "files", np: 2})
	schema := first.checkpoint()
	h.signal(dir, "go")
	first.ended()
	plain, added := filepath.Join(dir, "plain"), filepath.Join(dir, "added")
	tail := strings.TrimPrefix(written(20), written(10))

	digest(t, h.must("restart", "-files", "copy", schema))
	for _, path := range []string{plain, added} {
		holds(t, path, written(20))
		holds(t, theOnly(t, path+".gorun-*"), written(20))
	}
	out, errs, code := h.gorun("restart", schema)
	if code != 0 || digest(t, out) == "" {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	listed := h.must("snapshots", "-tails")
	for _, path := range []string{plain, added} {
		holds(t, path, written(20))
		kept := theOnly(t, path+".gorun-*-tail")
		holds(t, kept, tail)
		if !strings.Contains(errs, "kept in "+kept) || !strings.Contains(listed, kept+"\n") {
			t.Errorf("%s is not told:\n%s\nnor listed:\n%s", kept, errs, listed)
		}
	}
	h.must("snapshots", "-tails", "-remove")
	if left, _ := filepath.Glob(filepath.Join(dir, "*-tail")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	h.must("snapshots", "-remove", filepath.Base(filepath.Dir(filepath.Dir(schema))))
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestNativeFilesFailed restarts where the image of the last rank is damaged: no
// rank has said anything then, and no file was cut.
func TestNativeFilesFailed(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "files", np: 2})
	schema := first.checkpoint()
	h.signal(dir, "go")
	first.ended()
	img := theOnly(t, filepath.Join(filepath.Dir(schema), "*1.img"))
	b, err := os.ReadFile(img)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(img, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.gorun("restart", schema)
	if code == 0 || out != "" || !strings.Contains(errs, "rank 1 could not be restored") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	for _, name := range []string{"plain", "added"} {
		holds(t, filepath.Join(dir, name), written(20))
	}
	if tails, _ := filepath.Glob(filepath.Join(dir, "*.gorun-*")); len(tails) > 0 {
		t.Errorf("left: %v", tails)
	}
}

// TestNativeFilesRunning restarts a job that still runs.
func TestNativeFilesRunning(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "files", np: 2})
	schema := first.checkpoint()
	_, errs, code := h.gorun("restart", schema)
	if code == 0 || !strings.Contains(errs, "still running") || !strings.Contains(errs, "gorun kill") || !strings.Contains(errs, dir) {
		t.Errorf("exit %d\n%s", code, errs)
	}
	h.signal(dir, "go")
	first.ended()
	holds(t, filepath.Join(dir, "plain"), written(20))
}

// TestNativeFilesShared restarts where somebody else writes to the same file:
// another restart, or another rank.
func TestNativeFilesShared(t *testing.T) {
	h := nativeHouse(t)
	first, dir := h.stage(&scene{name: "files", np: 2})
	schema := first.checkpoint()
	first.kill()
	second := h.restart(schema)
	if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, "-files") || !strings.Contains(errs, filepath.Join(dir, "plain")) {
		t.Errorf("two restarts write to one file: exit %d\n%s", code, errs)
	}
	third := h.restart(schema, "-files", "copy")
	h.signal(dir, "go")
	second.ended()
	third.ended()
	holds(t, filepath.Join(dir, "plain"), written(20))
	holds(t, theOnly(t, filepath.Join(dir, "plain.gorun-*")), written(20))
}

// TestNativeFilesOfRanks restarts ranks that all write to one file.
func TestNativeFilesOfRanks(t *testing.T) {
	for _, policy := range []string{"refuse", "copy", "keep"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			r, dir := h.stage(&scene{name: "common", np: 3})
			schema := r.checkpoint()
			r.kill()
			h.signal(dir, "go")
			_, errs, code := h.gorun("restart", "-files", policy, schema)
			if code != 0 {
				t.Fatalf("exit %d\n%s", code, errs)
			}
			written := filepath.Join(dir, "common")
			if policy == "copy" {
				written = theOnly(t, written+".gorun-*")
			}
			text, err := os.ReadFile(written)
			if n := strings.Count(string(text), "\n"); err != nil || n != 6 {
				t.Errorf("the common file has %d lines, want 6: %v\n%s", n, err, text)
			}
		})
	}
}

// TestNativeFilesAtPlaces cuts the file that all ranks write, each at places of its own, once for all of them: in a restart
// by hand of a run that has gone on, and by -restarts.
func TestNativeFilesAtPlaces(t *testing.T) {
	for _, agents := range []string{"1", "2"} {
		t.Run(agents+" agents", func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			r, dir := h.stage(&scene{name: "places", np: 3, flags: []string{"-agents", agents, "-restarts", "1"}})
			schema := r.checkpoint()
			places := filepath.Join(dir, "places")
			want := placed(3, 10)
			// More than the ranks write after the snapshot, so that a file that is not cut is another one.
			if err := os.WriteFile(places, []byte(placed(3, 5)+strings.Repeat("stale ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, ranks := r.family()
			if err := syscall.Kill(ranks[1], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !r.errs.wait("kept in ", 1) {
				t.Fatalf("nothing was cut:\n%s", r.errs)
			}
			h.signal(dir, "go")
			r.ended()
			holds(t, places, want)
			holds(t, theOnly(t, places+".gorun-*-tail"), strings.Repeat("stale ", 1000))
			out, errs, code := h.gorun("restart", schema)
			if code != 0 || digest(t, out) == "" {
				t.Fatalf("exit %d\n%s", code, errs)
			}
			holds(t, places, want)
		})
	}
}

// placed is what the scene "places" leaves when each rank has written so many records.
func placed(np, records int) string {
	var b strings.Builder
	for i := range records {
		for rank := range np {
			fmt.Fprintf(&b, "record %2d of rank %d\n", i, rank)
		}
	}
	return b.String()
}
