package restore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// inScene is a program in a situation, which goes on, and its image.
func inScene(t *testing.T, scene string) (*trip, string) {
	t.Helper()
	program, _ := nativetest.BuildC(t, "scenes", "c")
	tr := newTrip(t, program)
	tr.start(scene)
	tr.next("ready")
	return tr, tr.image(whole.CaptureOptions{})
}

// TestWrittenBack: a mapped file gets the content again that it had, however the program went on, and what it held by then is
// kept. One that is gone is made anew. A restart that does not go on changes nothing.
func TestWrittenBack(t *testing.T) {
	tr, img := inScene(t, "maps_written")
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

// TestInPlace: a file that is open and written to elsewhere than at its end, or that can be read as well, gets its content again, too, if
// it is shorter or gone as well. Of one that has only grown, what was added is kept.
func TestInPlace(t *testing.T) {
	for _, scene := range []string{"write_read00", "write_read01"} { // at 3000 and 1000 of 3000
		t.Run(scene, func(t *testing.T) { testInPlace(t, scene) })
	}
}

func testInPlace(t *testing.T, scene string) {
	tr, img := inScene(t, scene)
	tr.kill()
	path := filepath.Join(tr.dir, "data")
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(was)
	changed[500]++
	for name, c := range map[string]struct{ now, kept []byte }{
		"changed": {changed, changed},
		"grown":   {append(bytes.Clone(was), "more"...), []byte("more")},
		"both":    {append(changed, "more"...), append(bytes.Clone(changed), "more"...)},
		"shorter": {was[:100], was[:100]},
		"as was":  {was, nil},
		"gone":    {},
	} {
		if os.Remove(path); c.now != nil {
			if err := os.WriteFile(path, c.now, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r := tr.restore(img)
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, was) {
			t.Errorf("%s: it has not got its content again: %v", name, err)
		}
		var kept []byte
		if len(r.Tails) > 0 {
			if kept, err = os.ReadFile(r.Tails[0]); err != nil {
				t.Error(err)
			}
			os.Remove(r.Tails[0])
		}
		if !bytes.Equal(kept, c.kept) || len(r.Tails) > 1 {
			t.Errorf("%s: %d bytes are kept, %d wanted, in %q", name, len(kept), len(c.kept), r.Tails)
		}
		tr.kill()
	}
}

// TestGrownLarge: what a file has grown to since is not read into memory.
func TestGrownLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	was := []byte("as it was")
	if err := errors.Join(os.WriteFile(path, was, 0o644), os.Truncate(path, 256<<20)); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := &written{path: path, fd: int(file.Fd()), data: was}
	same, err := w.begins()
	runtime.ReadMemStats(&after)
	if same != int64(len(was)) || err != nil || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%d bytes are the same, with %d allocated: %v", same, after.TotalAlloc-before.TotalAlloc, err)
	}
}

// TestTooLarge: that a file stays as it is, which the program changes in place, is told.
func TestTooLarge(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	tr := newTrip(t, shell)
	path := filepath.Join(tr.dir, "large")
	if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 64<<20+1)); err != nil {
		t.Fatal(err)
	}
	tr.start("-c", `exec 5<>"$0"; echo ready; read`, path)
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	if r := tr.restore(img); !strings.Contains(r.Warn, path+" is not in the image") {
		t.Errorf("told is %q", r.Warn)
	}
	tr.kill()
}

// TestMoved: a file that was moved, and has a link in its place, gets its content where it is.
func TestMoved(t *testing.T) {
	tr, img := inScene(t, "write_read01")
	tr.kill()
	path, moved := filepath.Join(tr.dir, "data"), filepath.Join(t.TempDir(), "moved")
	was, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.Remove(path), os.WriteFile(moved, []byte("later"), 0o644), os.Symlink(moved, path))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := tr.restore(img)
	if now, err := os.ReadFile(moved); err != nil || !bytes.Equal(now, was) {
		t.Errorf("it has not got its content again: %v", err)
	}
	if len(r.Tails) != 1 {
		t.Fatalf("kept is %q", r.Tails)
	}
	if kept, err := os.ReadFile(r.Tails[0]); err != nil || string(kept) != "later" {
		t.Errorf("%s holds %q: %v", r.Tails[0], kept, err)
	}
	tr.kill()
}

// TestPlantedLink: another user puts a link to a private file of this user's where a file was, in a folder in common. A restart
// does not follow it, whether the file was mapped or written to.
func TestPlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a link to another user needs root")
	}
	for _, policy := range []whole.FilesPolicy{whole.FilesRefuse, whole.FilesKeep} {
		dir := t.TempDir()
		private, path := filepath.Join(dir, "private"), filepath.Join(dir, "file")
		write(t, private, "private")
		f := imaged(t, 3, private, os.O_RDWR)
		f.Path = path
		if err := errors.Join(os.Symlink(private, path), os.Lchown(path, 23002, 23002)); err != nil {
			t.Fatal(err)
		}
		d := &descriptors{reopener: reopener{policy: policy}, memory: map[string]bool{}, unmapped: map[uint64]string{}}
		if fd, err := d.openWritten(path, 0o600, []byte("of the image")); !errors.Is(err, owned.ErrForeign) {
			t.Errorf("policy %v, mapped: descriptor %d, %v, want ErrForeign", policy, fd, err)
		}
		if fd, err := d.reopener.open(&f); !errors.Is(err, owned.ErrForeign) {
			t.Errorf("policy %v: descriptor %d, %v, want ErrForeign", policy, fd, err)
		}
		if b, err := os.ReadFile(private); err != nil || string(b) != "private" {
			t.Errorf("the private file: %q, %v", b, err)
		}
	}
}

// TestJournal: the program is killed in a transaction that began after the checkpoint and has changed the database. The journal of that
// would bring the database, which has its content again, to a state that never was.
func TestJournal(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip(err)
	}
	for _, mode := range []string{"delete", "wal"} {
		tr := newTrip(t, shell)
		tr.start("data.db")
		ask := func(what, want string) {
			t.Helper()
			fmt.Fprintln(tr.stdin, what)
			tr.next(want)
		}
		ask("pragma journal_mode="+mode+";", mode)
		ask("create table t(n, p); insert into t values(1, randomblob(200000)); update t set p = randomblob(100000); select sum(n) from t;", "1")
		img := tr.image(whole.CaptureOptions{})
		ask("insert into t values(2, randomblob(300000)); select sum(n) from t;", "3")
		// A small cache makes it write before the end.
		ask("pragma cache_size=5; begin; update t set n = n + 7, p = randomblob(70000); select sum(n) from t;", "17")
		tr.kill()
		r := tr.restore(img)
		ask("select sum(n) from t;", "1")
		ask("pragma integrity_check;", "ok")
		ask("update t set n = 5; select sum(n) from t;", "5")
		if len(r.Tails) == 0 {
			t.Errorf("%s: nothing is kept", mode)
		}
		tr.kill()
	}
}

// TestJournalOpen: a journal that was open and empty at the checkpoint stays the program's. Without it nobody could undo a transaction
// in which the program is killed after the restart.
func TestJournalOpen(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip(err)
	}
	tr := newTrip(t, shell)
	tr.start("data.db")
	ask := func(what, want string) {
		t.Helper()
		fmt.Fprintln(tr.stdin, what)
		tr.next(want)
	}
	ask("pragma locking_mode=exclusive;", "exclusive")
	ask("pragma journal_mode=truncate;", "truncate")
	ask("create table t(n, p); insert into t values(1, randomblob(100000)); select sum(n) from t;", "1")
	img := tr.image(whole.CaptureOptions{})
	ask("insert into t values(2, randomblob(300000)); select sum(n) from t;", "3")
	tr.kill()
	tr.restore(img)
	ask("select sum(n) from t;", "1")
	ask("pragma cache_size=5; begin; update t set n = n + 7, p = randomblob(70000); select sum(n) from t;", "8")
	tr.kill()
	out, err := exec.Command(shell, filepath.Join(tr.dir, "data.db"), "select sum(n) from t; pragma integrity_check").CombinedOutput()
	if err != nil || string(out) != "1\nok\n" {
		t.Errorf("it holds %q: %v", out, err)
	}
}

// TestNoJournal: what only has a name like that of a journal is left alone.
func TestNoJournal(t *testing.T) {
	program, _ := nativetest.BuildC(t, "scenes", "c")
	tr := newTrip(t, program)
	notes := filepath.Join(tr.dir, "data-journal")
	if err := os.WriteFile(notes, []byte("Monday: rain"), 0o644); err != nil {
		t.Fatal(err)
	}
	tr.start("write_read01")
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	if r := tr.restore(img); len(r.Tails) > 0 {
		t.Errorf("kept is %q", r.Tails)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
	tr.kill()
}

// TestCommonMemoryInUse: memory of shm_open has no copies, and so a restart in copies leaves it alone, too, while the program goes on.
func TestCommonMemoryInUse(t *testing.T) {
	tr, img := inScene(t, "shm_posix")
	_, err := tr.beside(t).tryRestore(img, func(o *whole.RestoreOptions) { o.Files = whole.FilesCopy })
	if err == nil || !strings.Contains(err.Error(), "has it mapped") {
		t.Errorf("while the program itself goes on: %v", err)
	}
	if _, err := tr.stdin.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	tr.next("passed")
	tr.kill()
}

// TestFileInMemory: a file below /dev/shm that is not mapped is one as any: what it held is kept, and a copy may be made.
func TestFileInMemory(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp(state.PosixMemory, "gorun-test-*")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "data")
	tr := newTrip(t, shell)
	tr.start("-c", `exec 5<>"$0"; echo early >&5; echo ready; read; cat "$0"; read`, path)
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	for _, policy := range []whole.FilesPolicy{whole.FilesCopy, whole.FilesRefuse} {
		if err := os.WriteFile(path, []byte("later"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := tr.restore(img, func(o *whole.RestoreOptions) { o.Files = policy })
		want := map[whole.FilesPolicy]string{whole.FilesCopy: "later", whole.FilesRefuse: "early\n"}[policy]
		if now, err := os.ReadFile(path); err != nil || string(now) != want {
			t.Errorf("%s: it holds %q: %v", policy, now, err)
		}
		if kept := len(r.Tails) > 0; kept != (policy == whole.FilesRefuse) {
			t.Errorf("%s: kept is %q", policy, r.Tails)
		}
		tr.kill()
	}
}
