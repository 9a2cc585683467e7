//go:build linux

package restore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestRestoreFails breaks images in ways that show at different steps: nothing
// may be left of the process.
func TestRestoreFails(t *testing.T) {
	tr, img := imagedVictim(t, "4", "log", "threads")
	flipped := filepath.Join(tr.dir, "flipped")
	p, err := os.ReadFile(img)
	if err != nil {
		t.Fatal(err)
	}
	p[len(p)/2] ^= 1
	if err := os.WriteFile(flipped, p, 0o600); err != nil {
		t.Fatal(err)
	}
	other := nativetest.Build(t, "trip", "default")
	for _, c := range []struct {
		name   string
		change func(*state.State)
		option func(*whole.RestoreOptions)
		want   error
		text   string
	}{
		{name: "one bit", option: func(o *whole.RestoreOptions) { o.Image = image.Path(flipped) }, want: image.ErrCorrupt, text: flipped},
		{name: "no image", option: func(o *whole.RestoreOptions) { o.Image = image.Path(o.Image.String() + "x") }, want: os.ErrNotExist},
		{name: "rank", option: func(o *whole.RestoreOptions) { o.Rank = 1 }, want: state.ErrImage, text: "rank 0, not 1"},
		{name: "program", option: func(o *whole.RestoreOptions) { o.Program = other }, want: ErrProgram},
		{name: "no program", option: func(o *whole.RestoreOptions) { o.Program += "x" }, want: ErrProgram},
		{name: "descriptor", option: func(o *whole.RestoreOptions) { o.OOB = -1 }, want: ErrFiles},
		{name: "policy", option: func(o *whole.RestoreOptions) { o.Files = "shred" }, text: "refuse, copy, keep"},
		{name: "machine", change: func(s *state.State) { s.Host.Flags = append(s.Host.Flags, "flux") }, want: state.ErrHost, text: "flux"},
		{name: "folder", change: func(s *state.State) { s.Dir = "/nowhere" }, want: ErrFiles, text: "/nowhere"},
		{name: "file", change: func(s *state.State) {
			f := fileOf(s, state.FileRegular, "log")
			f.Size, f.Written = f.Size+1, false // one that is judged by its length
		}, want: ErrFiles, text: "-files keep"},
		{name: "thread id", change: func(s *state.State) { s.Threads[1].TID = 1 << 22 }, want: runtimes.ErrProcID},
		{name: "thread pointer", change: func(s *state.State) { s.Threads[1].Regs = make([]byte, state.RegsSize) }, want: runtimes.ErrProcID},
		{name: "selector", change: func(s *state.State) { s.Threads[2].Regs[17*8] = 0x55 }, text: "registers"},
		{name: "layout", change: func(s *state.State) {
			s.Auxv = make([]byte, 1024)
			s.Auxv[0] = 1
			for i := range s.Auxv {
				s.Auxv[i] = 1
			}
		}, text: "layout"},
		{name: "epoll", change: func(s *state.State) {
			e := fileOf(s, state.FileEpoll, "")
			e.Epoll = append(e.Epoll, proc.Watch{FD: fileOf(s, state.FileRegular, "log").FD})
		}, text: "epoll"},
		{name: "mapped file", change: func(s *state.State) {
			for i := range s.Regions {
				if s.Regions[i].Path == s.Exe && s.Regions[i].Prot == 5 {
					s.Regions[i].Path = "/nowhere/library"
				}
			}
		}, want: ErrFiles, text: "/nowhere/library"},
		{name: "shared memory", change: func(s *state.State) {
			last := s.Regions[len(s.Regions)-1].End
			s.Regions = append(s.Regions, state.Region{Start: last, End: last + pages.Size, Prot: 3, Shared: true})
		}, want: state.ErrImage},
	} {
		path := img
		if c.change != nil {
			path = rewrite(t, img, c.change)
		}
		option := c.option
		if option == nil {
			option = func(*whole.RestoreOptions) {}
		}
		_, err := tr.tryRestore(path, option)
		switch {
		case err == nil:
			t.Errorf("%s: restored", c.name)
			tr.kill()
		case !strings.Contains(err.Error(), path) && c.name != "one bit" && c.name != "no image", c.want != nil && !errors.Is(err, c.want), !strings.Contains(err.Error(), c.text):
			t.Errorf("%s: %v, want %v and %q", c.name, err, c.want, c.text)
		case strings.Count(err.Error(), ".img") > 1:
			t.Errorf("%s: the image is named twice: %v", c.name, err)
		}
		if left := nativetest.LeftChildren(t); left != "" {
			t.Fatalf("%s: left is %s", c.name, left)
		}
	}
	tr.restore(img)
	tr.works(1)
}

// fileOf finds a descriptor by its kind and a part of its path.
func fileOf(s *state.State, kind, part string) *state.File {
	for i := range s.Files {
		if f := &s.Files[i]; f.Kind == kind && strings.Contains(f.Path, part) {
			return f
		}
	}
	return nil
}

// TestRestoreKilled kills the process while it is being made.
func TestRestoreKilled(t *testing.T) {
	tr, img := imagedVictim(t, "32", "threads")
	failed := 0
	for round := range 20 {
		stop := make(chan struct{})
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			for n := 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				for _, pid := range nativetest.OwnChildren(t) {
					// A little later each round.
					if n++; n > round*40 {
						id, _ := strconv.Atoi(pid)
						syscall.Kill(id, syscall.SIGKILL)
						return
					}
				}
			}
		}()
		r, err := tr.tryRestore(img)
		close(stop)
		<-killed
		if err != nil {
			failed++
			if !errors.Is(err, whole.ErrDied) {
				t.Errorf("round %d: the error does not tell that the process was killed: %v", round, err)
			}
		} else {
			tr.kill()
			_ = r
		}
		if left := nativetest.LeftChildren(t); left != "" {
			t.Fatalf("round %d (%v): left is %s", round, err, left)
		}
	}
	if failed == 0 {
		t.Error("no round met the kill")
	}
}

// TestRestoreTwice has two processes of one image at once, each with its files.
func TestRestoreTwice(t *testing.T) {
	tr, img := imagedVictim(t, "4", "log", "pipe", "events", "deleted")
	tr.restore(img)
	second := newTrip(t, tr.program)
	if _, err := second.tryRestore(img); !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), "-files copy") {
		t.Errorf("both write one file: %v", err)
	}
	second.restore(img, func(o *whole.RestoreOptions) { o.Files = whole.FilesCopy })
	tr.works(1)
	second.works(1)
	tr.works(2)
}

func TestRestoreUnread(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start()
	tr.next("ready")
	unix.Write(tr.oob, []byte("half a fra"))
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	if r := tr.restore(img); string(r.Unread) != "half a fra" {
		t.Errorf("unread: %q", r.Unread)
	}
	tr.works(1)
}

func TestRestoreOdd(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "odd", "default"))
	tr.start("net")
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	tr.restore(img)
	for range 4 {
		line := tr.next("")
		switch what, rest, _ := strings.Cut(line, ": "); what {
		case "datagram":
			if rest != "5 <nil>" {
				t.Errorf("a datagram: %q", line)
			}
		case "read", "write":
			if strings.Contains(rest, "nil") || strings.Contains(rest, "EOF") {
				t.Errorf("no error: %q", line)
			}
		case "again":
			if rest != "hello <nil>" {
				t.Errorf("a new connection: %q", line)
			}
		default:
			t.Errorf("it says %q", line)
		}
	}
	tr.kill()

	tr = newTrip(t, tr.program)
	std, oob := tr.streams()
	tr.spawn(std, oob, "redirect")
	closeAll(oob)
	tr.next("ready") // what it has as standard error now is its own
	tr.attach(std)
	closeAll(std[0], std[1])
	for range 2 {
		img = tr.image(whole.CaptureOptions{})
		tr.kill()
		tr.restore(img)
	}
	fmt.Fprintln(tr.stdin)
	tr.next("to the launcher")
	if got := read(t, filepath.Join(tr.dir, "errors")); got != "to the file\n" {
		t.Errorf("the file in place of standard error holds %q", got)
	}
	tr.kill()

	tr = newTrip(t, tr.program)
	tr.start("pending")
	tr.next("ready")
	for range 2 {
		img = tr.image(whole.CaptureOptions{})
		tr.kill()
		tr.restore(img)
	}
	fmt.Fprintln(tr.stdin)
	tr.next("signal: user defined signal 2")
}

// TestRestoreChain restores from incremental images.
func TestRestoreChain(t *testing.T) {
	sum, log := undisturbed(t)
	tr := newTrip(t, nativetest.Build(t, "trip", "default"))
	path := filepath.Join(tr.dir, "log")
	tr.start(append(tripArgs, path)...)
	images := map[int]string{}
	base, incremental := 0, 0
	for i := 1; i <= 8; i++ {
		tr.steps(20, 15)
		img := tr.image(whole.CaptureOptions{Base: base, Seq: i, Track: true})
		images[i] = img
		if stateOf(t, img).Base != 0 {
			incremental++
		}
		tr.target.Committed(i)
		base = i
		if i%3 == 0 {
			tr.kill()
			tr.restore(img, func(o *whole.RestoreOptions) { o.Base = func(seq int) image.Source { return image.Path(images[seq]) } })
			base = 0
		}
	}
	if incremental == 0 {
		t.Log("no image was incremental: the kernel does not tell what has changed")
	}
	tr.steps(200, 0)
	if got := tr.next("sum "); got != sum {
		t.Errorf("the sum is %s, undisturbed it is %s", got, sum)
	}
	if read(t, path) != log {
		t.Error("the log differs from an undisturbed one")
	}
}

// TestChainWhileBusy images a program that computes on two threads and collects
// garbage without end, and checks that each chain holds the memory of the copy,
// page by page.
func TestChainWhileBusy(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "trip", "default"))
	tr.start("1000000", "1000000", filepath.Join(tr.dir, "log"))
	path := func(seq int) string { return filepath.Join(tr.dir, strconv.Itoa(seq)) }
	base, rounds := 0, 25
	if testing.Short() {
		rounds = 12 // beyond the start of a second chain
	}
	for seq := 1; seq <= rounds; seq++ {
		tr.steps(4, 3)
		c, err := tr.target.Capture(whole.CaptureOptions{Base: base, Seq: seq, Track: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		truth := nativetest.OwnMemory(t, c.PID())
		m := image.LocalMeta()
		m.Seq = seq
		if _, err := c.Write(image.Path(path(seq)), m, image.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(); err != nil {
			t.Error(err)
		}
		compareChain(t, path(seq), func(seq int) image.Source { return image.Path(path(seq)) }, truth)
		tr.target.Committed(seq)
		if base = seq; seq%10 == 0 {
			base = 0
		}
	}
}

// compareChain checks that a chain resolves to the memory given.
func compareChain(t *testing.T, path string, base func(int) image.Source, truth map[uint64][]byte) {
	t.Helper()
	images, err := openChain(image.Path(path), 0, base)
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	windows, _, err := images.plan()
	if err != nil {
		t.Fatal(err)
	}
	restored := &nativetest.PageMap{Pages: map[uint64][]byte{}}
	if err := images.fill(restored, windows, nil); err != nil {
		t.Fatal(err)
	}
	for addr, p := range truth {
		got, ok := restored.Pages[addr]
		if !ok {
			got = nativetest.ZeroPage[:]
		}
		if !bytes.Equal(got, p) {
			t.Fatalf("%s, a chain of %d: page %x is not as it was", path, len(images), addr)
		}
	}
}

// TestUnprivilegedRestores runs the tests of restoring once more as an ordinary user.
func TestUnprivilegedRestores(t *testing.T) {
	if testing.Short() {
		t.Skip("all of it once more as another user; skipped with -short")
	}
	out := nativetest.Unprivileged(t, "^(TestRoundTrips|TestRestoreExactly|TestRestoreFails|TestRestoreOdd|TestClockBehind|TestChainOfImages)$/^(default|[0-9])?$", "trip", "victim", "odd")
	if n := nativetest.Passed(out); n != 6 || !strings.Contains(out, "PASS: TestRoundTrips/default") {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
