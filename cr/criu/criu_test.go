package criu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// backend is one whose criu is this binary in the role given.
func backend(t *testing.T, role string) *Backend {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVar, role)
	return &Backend{Command: self, Dir: t.TempDir()}
}

// child is a process to be imaged, with our ends of what it holds.
type child struct {
	pid    int
	wait   func() error
	agent  *os.File // the other half of its descriptor 3
	reader *bufio.Reader
	stdout *os.File
	log    *os.File // open there as descriptor 4
}

// spawn starts the test binary as a rank.
func spawn(t *testing.T) *child {
	t.Helper()
	ours, theirs := pair(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"=rank")
	cmd.Stdout, cmd.ExtraFiles = in, []*os.File{theirs, log}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	in.Close()
	c := &child{pid: cmd.Process.Pid, wait: cmd.Wait, agent: ours, reader: bufio.NewReader(ours), stdout: out, log: log}
	t.Cleanup(func() {
		cmd.Process.Kill() // once waited for, this does nothing
		cmd.Wait()
		out.Close()
		log.Close()
	})
	return c
}

func newTracer(t *testing.T, b *Backend) whole.Tracer {
	t.Helper()
	tr, err := b.NewTracer(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func attach(t *testing.T, b *Backend, c *child) whole.Target {
	t.Helper()
	g, err := newTracer(t, b).Attach(c.pid, 2, 3, [3]int{-1, -1, -1})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func pair(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b = os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "rank")
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// ask sends a line and returns the answer.
func (c *child) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(c.agent, line); err != nil {
		t.Fatal(err)
	}
	answer, err := c.reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

func (c *child) end(t *testing.T) {
	t.Helper()
	if err := unix.Kill(c.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.wait()
}

func testMeta() image.Meta {
	m := image.LocalMeta()
	m.Rank, m.Size, m.Seq = 2, 4, 7
	return m
}

func TestMissing(t *testing.T) {
	b := &Backend{Command: "no-such-criu"}
	err := b.Supported()
	if !errors.Is(err, ErrUnsupported) || !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "no-such-criu") {
		t.Error(err)
	}
}

func TestSupported(t *testing.T) {
	if err := backend(t, "good").Supported(); err != nil {
		t.Error(err)
	}
	err := backend(t, "broken").Supported()
	if !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	for _, want := range []string{"'criu check", ", version 4.2: Error", "(criu/util.c:642): exited, status=1; Error (criu/vdso.c:381): vdso: Unexpected rt vDSO area bounds (exit status 1)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestComplaints(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "it says nothing",
		"one\n\n one\ntwo\n":                 "one; two",
		"(0.1) pie: 7: Error (a.c:1): x\nno": "Error (a.c:1): x",
		strings.Repeat("Error (a): x\nError (a): x\n", 3):                                            "Error (a): x",
		"Error (1\nError (2\nError (3\nError (4\nError (5\nError (6\nError (7\nError (8\nError (9\n": "Error (1; Error (2; Error (3; Error (4; Error (5; Error (6; Error (7; Error (8; ...",
	} {
		if got := complaints(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestDumpOptions(t *testing.T) {
	st := &State{PID: 77, Socket: "socket:[1234]", Std: [3]string{"", "socket:[9]", "pipe:[5]"}}
	o, err := dumpOptions(st, 5, 6, true)
	if err != nil {
		t.Fatal(err)
	}
	if o.GetPid() != 77 || o.GetImagesDirFd() != 5 || o.GetWorkDirFd() != 6 || !o.GetLeaveRunning() || !o.GetUnprivileged() || o.RstSibling != nil {
		t.Errorf("%v", o)
	}
	if want := []string{"unix[1234]", "unix[9]"}; !reflect.DeepEqual(o.External, want) {
		t.Errorf("external %q, want %q", o.External, want)
	}
	if _, err := dumpOptions(&State{Socket: "pipe:[1]"}, 5, 6, false); err == nil {
		t.Error("a pipe is no stream to the agent")
	}
}

func TestRestoreOptions(t *testing.T) {
	o := restoreOptions(5, 6, true, false)
	if !o.GetRstSibling() || !o.GetLeaveStopped() || o.LeaveRunning != nil || o.Unprivileged != nil || !o.GetTcpClose() {
		t.Errorf("%v", o)
	}
	if o := restoreOptions(5, 6, false, false); o.LeaveStopped != nil {
		t.Errorf("%v", o)
	}
	// Output and error are one pipe there.
	st := &State{Socket: "socket:[1]", Std: [3]string{"", "pipe:[2]", "pipe:[2]"}}
	if got, want := inherited(st, [3]int{10, 11, 12}, 13), map[string]int{"socket:[1]": 13, "pipe:[2]": 11}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRoundTrip images a process, with a criu that writes nothing of it, and
// sees what that is asked for and what comes of its files.
func TestRoundTrip(t *testing.T) {
	b := backend(t, "good")
	tr := newTracer(t, b)
	c := spawn(t)
	if got := c.ask(t, "a"); got != "a 1" {
		t.Fatalf("answer %q", got)
	}
	if _, err := c.log.WriteString("twelve bytes"); err != nil {
		t.Fatal(err)
	}
	cp, err := attach(t, b, c).Capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cp.Bytes() != 3<<20+6 || cp.Pause() <= 0 || cp.Base() != 0 || cp.PID() != 0 || cp.Note() == "" {
		t.Errorf("%d bytes, pause %v", cp.Bytes(), cp.Pause())
	}
	path := filepath.Join(t.TempDir(), "image")
	if _, err := cp.Write(image.Path(path), testMeta(), image.Options{Codec: image.Zstd}); err != nil {
		t.Fatal(err)
	}
	empty(t, b, cp)
	m, err := image.Verify(path)
	if err != nil || m.Backend != Name || m.Format != Format || m.Rank != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	st, err := ReadState(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.PID != c.pid || len(st.Files) != 1 || st.Files[0] != (File{c.log.Name(), 12}) {
		t.Errorf("%+v", st)
	}

	c.log.WriteString(" and more")
	o, ours, out := ends(t)
	o.Image, o.Tag = image.Path(path), "beef"
	if _, err := tr.Restore(o); !errors.Is(err, ErrRestore) || !strings.Contains(err.Error(), "taken") {
		t.Errorf("while it runs: %v", err)
	}
	c.end(t)
	r, err := tr.Restore(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.PID <= 0 || len(r.Unread) != 0 {
		t.Errorf("%+v", r)
	}
	expect(t, ours, st.Socket)
	expect(t, out, st.Std[1])
	for path, want := range map[string]string{c.log.Name(): "twelve bytes", c.log.Name() + ".tail-beef": " and more"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	empty(t, b, nil)
}

// ends are descriptors for a rank that comes back, and our ends of two of them.
func ends(t *testing.T) (o whole.RestoreOptions, agent, out *os.File) {
	t.Helper()
	agent, theirs := pair(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close(); null.Close() })
	return whole.RestoreOptions{Rank: 2, Stdin: int(null.Fd()), Stdout: int(in.Fd()), Stderr: 2, OOB: int(theirs.Fd())}, agent, out
}

func expect(t *testing.T, f *os.File, want string) {
	t.Helper()
	got, err := bufio.NewReader(f).ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// empty releases the copy and looks for leftovers.
func empty(t *testing.T, b *Backend, cp whole.Copy) {
	t.Helper()
	if cp != nil {
		for range 2 {
			if err := cp.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestUnread(t *testing.T) {
	c := spawn(t)
	c.ask(t, "a")
	if err := unix.Kill(c.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(c.pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatal(err, ws)
	}
	io.WriteString(c.agent, "first ")
	io.WriteString(c.agent, "second\n")
	st, err := record(c.pid, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.freeze(); err != nil || string(st.Unread) != "first second\n" {
		t.Errorf("%q, %v", st.Unread, err)
	}
	unix.Kill(c.pid, unix.SIGCONT)
	if got, err := c.reader.ReadString('\n'); err != nil || got != "first second 2\n" {
		t.Errorf("what was looked at is gone: %q, %v", got, err)
	}
}

func TestDumpFails(t *testing.T) {
	b := backend(t, "failing")
	c := spawn(t)
	_, err := attach(t, b, c).Capture(whole.CaptureOptions{})
	if !errors.Is(err, ErrDump) || !strings.Contains(err.Error(), "Error (criu/x.c:12): Can't lookup mount=42") {
		t.Error(err)
	}
	if got := c.ask(t, "a"); got != "a 1" {
		t.Errorf("it does not go on: %q", got)
	}
	empty(t, b, nil)
	c.end(t)
	if _, err := attach(t, b, c).Capture(whole.CaptureOptions{}); !errors.Is(err, whole.ErrDied) {
		t.Errorf("of a dead process: %v", err)
	}
	empty(t, b, nil)
}

func TestRestoreRefuses(t *testing.T) {
	b := backend(t, "failing")
	tr := newTracer(t, b)
	dir := t.TempDir()
	self, _ := os.Executable()
	log := filepath.Join(dir, "log")
	good := State{PID: freePID, Program: self, Socket: "socket:[1]"}
	with := func(f func(*State)) *State { s := good; f(&s); return &s }
	for want, st := range map[string]*State{
		"no such file":                      with(func(s *State) { s.Program = filepath.Join(dir, "gone") }),
		"output file: stat":                 with(func(s *State) { s.Files = []File{{log + "gone", 1}} }),
		"it had 9 when it was imaged":       with(func(s *State) { s.Files = []File{{self, 1}, {log, 9}} }),
		"Error (criu/x.c:12): Can't lookup": &good,
	} {
		os.WriteFile(log, []byte("short"), 0o600)
		o, _, _ := ends(t)
		o.Image = image.Path(images(t, *st)[0])
		if _, err := tr.Restore(o); !errors.Is(err, ErrRestore) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	empty(t, b, nil)
}

func TestForeignImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	m := testMeta()
	m.Backend = "self"
	w, err := image.Create(path, m, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(path); !errors.Is(err, ErrImage) {
		t.Error(err)
	}
}

func TestUnpackNames(t *testing.T) {
	for _, name := range []string{"../up", "a/b", "..", ".hidden"} {
		path := filepath.Join(t.TempDir(), "image")
		w, err := image.Create(path, testMeta(), image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.Section(name, kindFile, "", []byte("x"))
		if _, err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		r, err := image.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := unpack(r, t.TempDir()); !errors.Is(err, ErrImage) {
			t.Errorf("%q: %v", name, err)
		}
		r.Close()
	}
}

// TestReal does all of it with the criu of this machine.
func TestReal(t *testing.T) {
	b := &Backend{Dir: t.TempDir()}
	if err := b.Supported(); err != nil {
		t.Skip(err)
	}
	tr := newTracer(t, b)
	c := spawn(t)
	c.ask(t, "a")
	cp, err := attach(t, b, c).Capture(whole.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image")
	if _, err := cp.Write(image.Path(path), testMeta(), image.Options{}); err != nil {
		t.Fatal(err)
	}
	empty(t, b, cp)
	if got := c.ask(t, "b"); got != "b 2" {
		t.Errorf("imaged, it goes on with %q", got)
	}
	c.end(t)
	o, ours, out := ends(t)
	o.Image, o.Tag = image.Path(path), "beef"
	r, err := tr.Restore(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Go(); err != nil {
		t.Fatal(err)
	}
	again := &child{pid: r.PID, agent: ours, reader: bufio.NewReader(ours)}
	if got := again.ask(t, "c"); got != "c 2" {
		t.Errorf("restored, it goes on with %q", got)
	}
	expect(t, out, "line 2")
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := unix.Wait4(r.PID, nil, 0, nil); err != nil {
		t.Errorf("it is no child of this process: %v", err)
	}
}
