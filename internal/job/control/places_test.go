package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// TestPlaces: a job's first place is the one that its session has, and those of other sessions are looked at from everywhere.
func TestPlaces(t *testing.T) {
	root := house(t)
	tmp := "/tmp/gorun-" + strconv.Itoa(os.Getuid())
	if all := Places(); all[0] != root || !slices.Contains(all, tmp) {
		t.Errorf("in a session: %q", all)
	}
	for _, dir := range []string{"", "relative", filepath.Join(t.TempDir(), "stale")} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		if all := Places(); strings.HasPrefix(all[0], dir+"/gorun") && dir != "" || !slices.Contains(all, tmp) {
			t.Errorf("XDG_RUNTIME_DIR=%q: %q", dir, all)
		}
	}
	t.Setenv("GORUN_DIR", filepath.Join(root, "to be made"))
	if all := Places(); all[0] != filepath.Join(root, "to be made", "gorun") {
		t.Errorf("GORUN_DIR: %q", all)
	}
}

// serving opens a server of a job that answers nothing but who it is.
func serving(t *testing.T, job string) *Server {
	t.Helper()
	over := make(chan struct{})
	c, why, err := Open(Record{Job: job, Incarnation: "00000000000000ff", PID: os.Getpid(), NP: 3}, func(*Request, chan Reply) {}, over)
	if err != nil || why != nil {
		t.Fatal(why, err)
	}
	t.Cleanup(func() {
		close(over)
		c.Close()
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestFoundFromElsewhere: a job is found from sessions that have another place than it has, or none, and when its folder is gone; once, if it is
// found in several ways.
func TestFoundFromElsewhere(t *testing.T) {
	root := house(t)
	c := serving(t, "job-elsewhere")
	only := func(when string) *Record {
		t.Helper()
		jobs, err := Jobs()
		if err != nil || len(jobs) != 1 || jobs[0].Job != "job-elsewhere" || jobs[0].NP != 3 {
			t.Fatalf("%s: %v, %v", when, jobs, err)
		}
		return jobs[0]
	}
	if r := only("here"); r.folder == "" || r.name == "" {
		t.Errorf("here: %+v", r)
	}
	for _, session := range []string{"", "/nonexistent", t.TempDir()} {
		t.Setenv("XDG_RUNTIME_DIR", session)
		r := only("XDG_RUNTIME_DIR=" + session)
		if _, err := r.ask(t.Context(), Request{Verb: verbRecord}, nil); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(root))
	r := only("here again")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	only("its folder was removed")
	if _, err := r.ask(t.Context(), Request{Verb: verbRecord}, nil); err != nil {
		t.Errorf("asked by a record that was read before: %v", err)
	}
	c.look()
	if jobs, err := jobsIn(root); err != nil || len(jobs) != 1 || c.Dir() != jobs[0].folder {
		t.Errorf("its folder is to be there again: %v, %v", jobs, err)
	}
	if err := os.Remove(filepath.Join(c.Dir(), recordName)); err != nil {
		t.Fatal(err)
	}
	c.look()
	if jobs, err := jobsIn(root); err != nil || len(jobs) != 1 {
		t.Errorf("its record is to be there again: %v, %v", jobs, err)
	}
	t.Setenv("GORUN_REALM", "another")
	if jobs, err := Jobs(); err != nil || len(jobs) != 0 {
		t.Errorf("from another realm: %v, %v", jobs, err)
	}
}

// TestVanishes has the watch itself make the folder again, elsewhere if the session is over.
func TestVanishes(t *testing.T) {
	root := house(t)
	c := serving(t, "job-vanishes")
	t.Setenv("TMPDIR", t.TempDir())
	if err := os.RemoveAll(filepath.Dir(root)); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, func() string {
		if dir := c.Dir(); dir == "" || strings.HasPrefix(dir, root) {
			return "the control folder is not made again"
		}
		return ""
	})
	if jobs, err := Jobs(); err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
}

// TestStrangersLock: nobody waits for a lock on a folder that is not this user's alone, nor for one that a stopped gorun has.
func TestStrangersLock(t *testing.T) {
	root := house(t)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(root) // as anybody may
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lockWithin/2)
	defer cancel()
	if jobs, err := Jobs(); err != nil || len(jobs) != 0 {
		t.Error(jobs, err)
	}
	if _, _, err := NewFolder(root, "x"); !errors.Is(err, errForeign) {
		t.Error(err)
	}
	c := serving(t, "job-squatted") // in another place
	if c.Dir() == "" || strings.HasPrefix(c.Dir(), root) {
		t.Errorf("control folder %q", c.Dir())
	}
	if ctx.Err() != nil {
		t.Error("a stranger's lock was waited for")
	}
}

// TestStrangersName: of a name at which somebody else listens nothing is read.
func TestStrangersName(t *testing.T) {
	house(t)
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	name := nameOf("job-lying", "00000000000000fe")
	runtime.LockOSThread()
	become := func(uid int) {
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 { // this thread alone
			t.Fatal(e)
		}
	}
	become(65534)
	ln, err := listen(name)
	become(0)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan bool)
	go func() {
		defer close(asked)
		conn, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		if n, _ := conn.Read(make([]byte, 1)); n > 0 {
			asked <- true
		}
	}()
	if !slices.Contains(names(), name) {
		t.Fatalf("%s is not among %q", name, names())
	}
	if r := introduce(name); r != nil {
		t.Errorf("a stranger's job: %+v", r)
	}
	if <-asked {
		t.Error("a stranger was asked")
	}
}
