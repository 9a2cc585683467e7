package restore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestWrittenBack: a mapped file gets the content again that it had, however the program went on, and what it held by then is
// kept. One that is gone is made anew. A restart that does not go on changes nothing.
func TestWrittenBack(t *testing.T) {
	program, _ := nativetest.BuildC(t, "scenes", "c")
	tr := newTrip(t, program)
	tr.start("maps_written")
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	if _, err := tr.beside(t).tryRestore(img); err == nil || !strings.Contains(err.Error(), "has it mapped") {
		t.Errorf("while the program itself goes on: %v", err)
	}
	tr.kill()
	path := filepath.Join(tr.dir, "mapped")
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Repeat([]byte("later"), len(was)/4)
	if err := os.WriteFile(path, later, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tr.stand(img).End(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, later) {
		t.Errorf("a restart that did not go on has changed it: %v", err)
	}
	finish := func(r *whole.Restored) {
		t.Helper()
		if _, err := tr.stdin.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		tr.next("passed")
		tr.kill()
	}
	r := tr.restore(img)
	if len(r.Tails) != 1 {
		t.Fatalf("kept is %q", r.Tails)
	}
	if kept, err := os.ReadFile(r.Tails[0]); err != nil || !bytes.Equal(kept, later) {
		t.Errorf("%s holds something else: %v", r.Tails[0], err)
	}
	finish(r)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := tr.stand(img).End(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a restart that did not go on has left a file")
	}
	finish(tr.restore(img))
	if err := os.WriteFile(path, later, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.restore(img, func(o *whole.RestoreOptions) { o.Files = whole.FilesCopy })
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, later) {
		t.Errorf("the file was changed although a copy was wanted: %v", err)
	}
	tr.kill()
	if _, err := tr.tryRestore(img, func(o *whole.RestoreOptions) { o.Files = whole.FilesKeep }); err != nil {
		t.Error(err)
	}
	tr.kill()
	if err := os.WriteFile(path, was[:10], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.tryRestore(img, func(o *whole.RestoreOptions) { o.Files = whole.FilesKeep }); err == nil || !strings.Contains(err.Error(), "is mapped with") {
		t.Errorf("a file that is too short: %v", err)
	}
}
