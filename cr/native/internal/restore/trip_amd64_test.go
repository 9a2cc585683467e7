//go:build linux

package restore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/capture"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// tripLimit is the deadline for whatever a program is to say next.
const tripLimit = 60 * time.Second

// trip is a program on its way through images. It is used by one goroutine.
type trip struct {
	t       testing.TB
	threads *trace.Threads
	agent   *capture.Agent
	program string
	dir     string
	pid     int
	back    *whole.Restored // nil: it was started here
	target  *capture.Target
	lines   chan string
	stdin   *os.File
	oob     int // our end of its descriptor 3
	seen    []string
	images  int
	codec   image.Codec
}

// newTrip prepares; start starts.
func newTrip(t testing.TB, program string) *trip {
	t.Helper()
	if err := capture.Supported(); err != nil {
		t.Skip(err)
	}
	// The program gets nothing that this process was started with by mistake.
	unix.CloseRange(3, 1<<31, unix.CLOSE_RANGE_CLOEXEC)
	threads := trace.NewThreads(2)
	tr := &trip{t: t, threads: threads, agent: capture.New(threads), program: program, dir: t.TempDir(), oob: -1}
	t.Cleanup(func() {
		tr.kill()
		tr.threads.Close()
	})
	return tr
}

// streams makes what a process is joined to; the ends returned are the process's.
func (tr *trip) streams() (std [3]int, oob int) {
	tr.t.Helper()
	var in, out, pair [2]int
	err := errors.Join(unix.Pipe2(in[:], unix.O_CLOEXEC), unix.Pipe2(out[:], unix.O_CLOEXEC))
	if err != nil {
		tr.t.Fatal(err)
	}
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		tr.t.Fatal(err)
	}
	tr.stdin = os.NewFile(uintptr(in[1]), "stdin")
	tr.oob = pair[1]
	lines := make(chan string, 1<<16)
	tr.lines = lines
	go func() {
		defer close(lines)
		r := os.NewFile(uintptr(out[0]), "stdout")
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return [3]int{in[0], out[1], out[1]}, pair[0]
}

func (tr *trip) start(args ...string) {
	tr.t.Helper()
	std, oob := tr.streams()
	defer closeAll(std[0], std[1], oob)
	tr.spawn(std, oob, args...)
	tr.attach(std)
}

// spawn starts the process with these streams.
func (tr *trip) spawn(std [3]int, oob int, args ...string) {
	tr.t.Helper()
	var err error
	tr.threads.Do(func() {
		tr.pid, err = syscall.ForkExec(tr.program, append([]string{tr.program}, args...), &syscall.ProcAttr{
			Dir: tr.dir, Env: append(os.Environ(), "GOMAXPROCS=2", "TMPDIR="+tr.dir),
			Files: []uintptr{uintptr(std[0]), uintptr(std[1]), uintptr(std[2]), uintptr(oob)},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	})
	if err != nil {
		tr.t.Fatal(err)
	}
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func (tr *trip) attach(std [3]int) {
	tr.t.Helper()
	var err error
	if tr.target, err = tr.agent.Attach(tr.pid, 0, 3, std); err != nil {
		tr.t.Fatal(err)
	}
}

// kill ends the process, if there is one, and reaps it.
func (tr *trip) kill() {
	if tr.pid == 0 {
		return
	}
	tr.target.Close()
	syscall.Kill(-tr.pid, syscall.SIGKILL) // its group, as an agent does
	syscall.Kill(tr.pid, syscall.SIGKILL)
	syscall.Wait4(tr.pid, nil, 0, nil)
	if tr.back != nil && tr.back.Close != nil {
		tr.back.Close()
	}
	tr.back = nil
	removeSysV(tr.pid)
	tr.stdin.Close()
	closeAll(tr.oob)
	tr.pid = 0
}

// removeSysV removes what System V shared memory a process has left on the machine.
func removeSysV(pid int) {
	p, _ := os.ReadFile("/proc/sysvipc/shm")
	all, _ := proc.ParseSysV(p)
	for _, o := range all {
		if o.Creator == pid {
			unix.SysvShmCtl(o.ID, unix.IPC_RMID, nil)
		}
	}
}

// image captures the process and writes its image.
func (tr *trip) image(o whole.CaptureOptions) string {
	tr.t.Helper()
	tr.images++
	path := filepath.Join(tr.dir, fmt.Sprintf("rank0-%d.img", tr.images))
	c, err := tr.target.Capture(o)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer c.Release()
	m := image.LocalMeta()
	m.Job, m.Seq = "trip", tr.images
	if _, err := c.Write(image.Path(path), m, image.Options{NoFolder: true, Codec: tr.codec}); err != nil {
		tr.t.Fatal(err)
	}
	if err := c.Release(); err != nil {
		tr.t.Fatal(err)
	}
	return path
}

// restore starts the process again from an image, and lets it go.
func (tr *trip) restore(path string, change ...func(*whole.RestoreOptions)) *whole.Restored {
	tr.t.Helper()
	r, err := tr.tryRestore(path, change...)
	if err != nil {
		tr.t.Fatal(err)
	}
	return r
}

// tryRestore is restore that may fail.
func (tr *trip) tryRestore(path string, change ...func(*whole.RestoreOptions)) (*whole.Restored, error) {
	tr.t.Helper()
	return tr.make(path, true, change...)
}

// stand makes the process of an image, which stands until Go or End.
func (tr *trip) stand(path string) *whole.Restored {
	tr.t.Helper()
	r, err := tr.make(path, false)
	if err != nil {
		tr.t.Fatal(err)
	}
	return r
}

func (tr *trip) make(path string, goOn bool, change ...func(*whole.RestoreOptions)) (*whole.Restored, error) {
	tr.t.Helper()
	std, oob := tr.streams()
	o := whole.RestoreOptions{Image: image.Path(path), Program: tr.program, Stdin: std[0], Stdout: std[1], Stderr: std[2], OOB: oob, Tag: "tag", Files: whole.FilesRefuse}
	for _, f := range change {
		f(&o)
	}
	defer closeAll(std[0], std[1], oob)
	r, err := Start(tr.threads, o)
	if err == nil && goOn {
		err = r.Go()
	}
	if err != nil {
		tr.stdin.Close()
		closeAll(tr.oob)
		return nil, err
	}
	tr.pid, tr.back = r.PID, r
	tr.attach(std)
	unix.Write(tr.oob, r.Unread)
	return r, nil
}

// next waits for a line with the prefix and returns the rest of it.
func (tr *trip) next(prefix string) string {
	tr.t.Helper()
	limit := time.NewTimer(tripLimit)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-tr.lines:
			if !ok {
				tr.t.Fatalf("the program ended before it said %q; last it said\n%s", prefix, strings.Join(tail(tr.seen), "\n"))
			}
			tr.seen = append(tr.seen, line)
			if strings.HasPrefix(line, "failed") {
				tr.t.Fatalf("%q", tail(tr.seen))
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return rest
			}
		case <-limit.C:
			tr.t.Fatalf("nothing that begins with %q in %v; last it said %q\n%s", prefix, tripLimit, tail(tr.seen), tr.stacks())
		}
	}
}

// stacks makes a program that hangs tell where it is, and ends it.
func (tr *trip) stacks() string {
	var b strings.Builder
	tids, _ := proc.Threads(tr.pid)
	for _, tid := range tids {
		for _, name := range []string{"stat", "syscall"} {
			p, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/%s", tr.pid, tid, name))
			fmt.Fprintf(&b, "%s: %s", name, p)
		}
	}
	syscall.Kill(tr.pid, syscall.SIGQUIT)
	limit := time.NewTimer(tripLimit)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-tr.lines:
			if !ok {
				return b.String()
			}
			fmt.Fprintln(&b, line)
		case <-limit.C:
			return b.String() + "and it does not end on SIGQUIT"
		}
	}
}

// tail gives the last lines, and if the program died of something, what it said
// of that.
func tail(lines []string) []string {
	for i, line := range lines {
		for _, last := range []string{"fatal error", "panic", "runtime:", "unexpected fault", "SIG"} {
			if strings.HasPrefix(line, last) {
				return lines[max(0, i-2):min(len(lines), i+40)]
			}
		}
	}
	return lines[max(0, len(lines)-5):]
}

// tripArgs let the program work for about a second.
var tripArgs = []string{"200", "400"}

// undisturbed is what the program says at the end if nobody images it, and its
// log. All builds of it say the same.
func undisturbed(t testing.TB) (sum, log string) {
	t.Helper()
	calm.Do(func() {
		tr := newTrip(t, nativetest.Build(t, "trip", "default"))
		path := filepath.Join(tr.dir, "log")
		tr.start(append(tripArgs, path)...)
		tr.steps(200, 0)
		calm.sum, calm.log = tr.next("sum "), read(t, path)
	})
	if calm.sum == "" {
		t.Fatal("the undisturbed program failed")
	}
	return calm.sum, calm.log
}

// steps gives leave for n more steps and waits until some of them are done.
func (tr *trip) steps(n, wait int) {
	tr.t.Helper()
	unix.Write(tr.oob, bytes.Repeat([]byte("."), n))
	for range wait {
		tr.next("step ")
	}
}

var calm struct {
	sync.Once
	sum, log string
}

func TestRoundTrips(t *testing.T) {
	for how := range nativetest.Builds {
		t.Run(how, func(t *testing.T) {
			if testing.Short() && how != "default" {
				t.Skip("builds the standard library; skipped with -short")
			}
			cycles := 6
			if how != "default" || os.Getenv(nativetest.ProgramsVar) != "" {
				cycles = 3
			}
			sum, log := undisturbed(t)
			tr := newTrip(t, nativetest.Build(t, "trip", how))
			path := filepath.Join(tr.dir, "log")
			tr.start(append(tripArgs, path)...)
			for range cycles {
				tr.steps(18, 12)
				img := tr.image(whole.CaptureOptions{})
				tr.steps(1, 1) // it lives on, and what it does now is undone
				tr.kill()
				if r := tr.restore(img); r.Note != "" {
					t.Error(r.Note)
				}
				fmt.Fprintln(tr.stdin, "hello")
				tr.next("stdin hello")
				unix.Write(tr.oob, []byte("hello\n"))
				tr.next("agent hello")
			}
			tr.steps(200, 0)
			if got := tr.next("sum "); got != sum {
				t.Errorf("the sum is %s, undisturbed it is %s", got, sum)
			}
			if read(t, path) != log {
				t.Error("the log differs from an undisturbed one")
			}
		})
	}
}
