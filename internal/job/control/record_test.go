package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// house gives a test a control root of its own.
func house(t *testing.T) (root string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GORUN_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("GORUN_REALM", dir) // without the jobs of who runs the tests
	return filepath.Join(dir, "gorun")
}

func TestStaleRecordIsRemoved(t *testing.T) {
	root := house(t)
	live, lock, err := NewFolder(root, "live")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := (&Record{Job: "j1", Realm: realm()}).Write(live); err != nil {
		t.Fatal(err)
	}
	dead, deadLock, err := NewFolder(root, "dead")
	if err != nil {
		t.Fatal(err)
	}
	build, foreign := filepath.Join(t.TempDir(), BuildPrefix+"x"), filepath.Join(t.TempDir(), "precious")
	for _, d := range []string{build, foreign} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Record{Job: "j2", Realm: realm(), Cleanup: []string{build}}).Write(dead); err != nil {
		t.Fatal(err)
	}
	if jobs, err := Jobs(); err != nil || len(jobs) != 2 {
		t.Fatalf("two live heads: %d jobs, %v", len(jobs), err)
	}
	deadLock.Close() // as the kernel does when a head dies
	jobs, err := Jobs()
	if err != nil || len(jobs) != 1 || jobs[0].Job != "j1" {
		t.Fatalf("after a head died: %v, %v", jobs, err)
	}
	for _, d := range []string{dead, build} {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is left behind", d)
		}
	}
	if err := RemoveOwn(foreign); err == nil {
		t.Error("a folder that is not gorun's would be removed")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a folder that is not gorun's was removed")
	}
	if err := RemoveFolder(live); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFolder(live); err != nil {
		t.Errorf("removing twice: %v", err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Error("the root stays after its last job")
	}
}

// A record that was never finished belongs to a dead head as well.
func TestStaleFolderWithoutRecord(t *testing.T) {
	root := house(t)
	dir, lock, err := NewFolder(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := Jobs(); err != nil || len(jobs) != 0 {
		t.Fatalf("%v, %v", jobs, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal("the folder of a head that is starting was removed")
	}
	lock.Close()
	if _, err := Jobs(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Error("left behind")
	}
}

// Foreign files beside the control folders disturb nobody.
func TestStrayFileInRoot(t *testing.T) {
	root := house(t)
	_, lock, err := NewFolder(root, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	stray := filepath.Join(root, "stray")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Jobs(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stray); err != nil {
		t.Error(err)
	}
}

func TestForeignRootIsRefused(t *testing.T) {
	root := house(t)
	if err := os.Mkdir(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := NewFolder(root, "x"); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a root open to everybody: %v", err)
	}
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), root); err != nil {
		t.Fatal(err)
	}
	if _, _, err := NewFolder(root, "x"); err == nil {
		t.Error("a root that is a link is used")
	}
}

func TestPickJob(t *testing.T) {
	jobs := []*Record{
		{Job: "aaaa1111", Incarnation: "0f01", Program: "/x/solver"},
		{Job: "aaaa2222", Incarnation: "0f02", Program: "/x/heat"},
		{Job: "bbbb3333", Incarnation: "0f03", Program: "/x/heat"},
		{Job: "bbbb3333", Incarnation: "0f04", Program: "/x/heat"},
	}
	for id, want := range map[string]string{"aaaa1": "0f01", "aaaa2222": "0f02", "0f03": "0f03", "0f04": "0f04"} {
		if r, err := pickJob(jobs, id); err != nil || r.Incarnation != want {
			t.Errorf("%s: %v, %v", id, r, err)
		}
	}
	for id, want := range map[string]string{
		"aaaa": "aaaa1111 solver, aaaa2222 heat",
		"bbbb": "0f03 (of bbbb3333)",
		"":     "say which",
		"cc":   "running: aaaa1111 solver",
	} {
		if r, err := pickJob(jobs, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error that says %q", id, r, err, want)
		}
	}
	if r, err := pickJob(jobs[:1], ""); err != nil || r != jobs[0] {
		t.Errorf("the only job: %v, %v", r, err)
	}
	if _, err := pickJob(nil, "a"); err == nil || !strings.Contains(err.Error(), "no job") {
		t.Errorf("no jobs: %v", err)
	}
}
