//go:build linux

package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// rewrite copies an image with a changed state.
func rewrite(t testing.TB, path string, change func(*state.State)) string {
	t.Helper()
	r, err := image.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := path + ".changed"
	os.Remove(out)
	w, err := image.Create(out, r.Meta(), image.Options{NoFolder: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sections() {
		p := make([]byte, s.Size)
		if err := r.ReadSection(s.Kind, s.Name, p); err != nil {
			t.Fatal(err)
		}
		if s.Kind == state.KindProcess {
			var state state.State
			if err := json.Unmarshal(p, &state); err != nil {
				t.Fatal(err)
			}
			change(&state)
			if p, err = json.Marshal(&state); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Section(s.Name, s.Kind, s.Type, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return out
}

func stateOf(t testing.TB, path string) *state.State {
	t.Helper()
	s, err := state.Read(image.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// imagedVictim runs the victim, images it and ends it.
func imagedVictim(t testing.TB, what ...string) (*trip, string) {
	t.Helper()
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start(what...)
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	tr.kill()
	return tr, img
}

// works checks that the victim answers, after a garbage collection.
func (tr *trip) works(n int) {
	tr.t.Helper()
	fmt.Fprintln(tr.stdin, n)
	if got := tr.next(fmt.Sprint(n, " ")); !strings.HasSuffix(got, " whole") {
		tr.t.Fatalf("the program says %q", got)
	}
}

// TestRestoreExactly images a restored process before it has run and compares.
func TestRestoreExactly(t *testing.T) {
	tr, img := imagedVictim(t, "8", "log", "pipe", "events", "deleted", "threads", "readonly", "spin", "churn")
	before := stateOf(t, img)
	r := tr.restore(img, func(o *whole.RestoreOptions) { o.Hold = true })
	if s, err := proc.Parsed(r.PID, "stat", procfs.ParseStat); err != nil || s.State != 'T' {
		t.Errorf("held, it is in state %c, %v", s.State, err)
	}
	after := stateOf(t, tr.image(whole.CaptureOptions{}))
	threads, were := sameThreads(t, after), sameThreads(t, before)
	for base, th := range threads {
		if signalled(t, before)[base] && inHandler(t, &th) {
			delete(threads, base)
			delete(were, base)
		}
	}

	if got, want := after.MM, before.MM; got != want {
		t.Errorf("layout\n%+v, it was\n%+v", got, want)
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"arguments", string(after.Cmdline), string(before.Cmdline)},
		{"environment", string(after.Environ), string(before.Environ)},
		{"name", after.Comm, before.Comm},
		{"folder", after.Dir, before.Dir},
		{"umask", after.Umask, before.Umask},
		{"auxv", after.Auxv, before.Auxv},
		{"actions", after.Actions, before.Actions},
		{"vdso", after.VDSO, before.VDSO},
		{"regions", sameRegions(after), sameRegions(before)},
		{"files", sameFiles(after), sameFiles(before)},
		{"threads", threads, were},
	} {
		got, want := reflect.ValueOf(c.got), reflect.ValueOf(c.want)
		if got.Kind() == reflect.Slice && got.Len() == want.Len() {
			for i := range got.Len() {
				if g, w := got.Index(i).Interface(), want.Index(i).Interface(); !reflect.DeepEqual(g, w) {
					t.Errorf("%s, %d-th:\n%+v\nit was\n%+v", c.name, i, g, w)
				}
			}
		} else if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\n%+v\nit was\n%+v", c.name, c.got, c.want)
		}
	}
	for _, th := range after.Threads {
		if n := len(th.Pending); n == 0 || state.SignalOf(th.Pending[n-1]) != int(unix.SIGURG) {
			t.Errorf("thread %d: pending %v, the last is not SIGURG", th.TID, th.Pending)
		}
	}
	if err := syscall.Kill(r.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tr.works(1)
}

// sameRegions lists what has to come back of the memory. The name of a mapped
// file is now that of the kept program; neighbours may have grown together.
func sameRegions(s *state.State) []string {
	var all []string
	for _, r := range s.Regions {
		name := r.Path
		if r.OfFile() {
			name = "file"
		}
		line := fmt.Sprintf("%x %d %v %s %x %v", r.End, r.Prot, r.Shared, name, r.Offset, r.Empty)
		all = append(all, fmt.Sprintf("%x %s %v", r.Start, line, slices.DeleteFunc(strings.Fields(r.Flags), func(f string) bool {
			return f == "sd" // soft-dirty: by definition
		})))
	}
	return all
}

func sameFiles(s *state.State) []state.File {
	all := slices.Clone(s.Files)
	for i := range all {
		f := &all[i]
		f.Inode, f.Dev, f.Pipe = 0, 0, 0
		f.Flags &^= 0x8000 // O_LARGEFILE, which open adds to all
		if f.Kind == state.FileStdio || f.Deleted {
			f.Path, f.Mode = "", 0
		}
		if f.Kind == state.FileSocket || f.Kind == state.FileOOB {
			f.Mode = 0
		}
		if f.Timer != nil {
			// It runs on.
			f.Timer = &proc.Timer{Clock: f.Timer.Clock, Interval: f.Timer.Interval}
		}
		// The kernel lists them in the order of its own addresses.
		slices.SortFunc(f.Epoll, func(a, b proc.Watch) int { return a.FD - b.FD })
	}
	return all
}

// sameThreads lists threads by their thread pointer, which tells them apart.
func sameThreads(t *testing.T, s *state.State) map[uint64]state.Thread {
	all := make(map[uint64]state.Thread)
	for _, th := range s.Threads {
		base := baseOf(t, &th)
		th.TID, th.Pending = 0, nil
		all[base] = th
	}
	return all
}

// TestHeldWithSignals: a signal that was on its way to a thread may get there before
// the stop of a process that is held. The thread then stands in its handler; all others
// stand where they were, and the program goes on.
func TestHeldWithSignals(t *testing.T) {
	tr, img := imagedVictim(t, "8", "threads", "spin", "churn")
	info := make([]byte, state.SigInfoSize)
	info[0] = byte(unix.SIGURG)
	img = rewrite(t, img, func(s *state.State) {
		for i := range s.Threads {
			s.Threads[i].Pending = [][]byte{info}
		}
	})
	before := sameThreads(t, stateOf(t, img))
	r := tr.restore(img, func(o *whole.RestoreOptions) { o.Hold = true })
	after := sameThreads(t, stateOf(t, tr.image(whole.CaptureOptions{})))
	if len(after) != len(before) || len(before) == 0 {
		t.Errorf("%d threads, there were %d", len(after), len(before))
	}
	for base, th := range after {
		if was := before[base]; !reflect.DeepEqual(th.Regs, was.Regs) && !inHandler(t, &th) {
			t.Errorf("thread of %x has gone on: registers %x, they were %x", base, th.Regs, was.Regs)
		}
	}
	if err := syscall.Kill(r.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tr.works(1)
}

// signalled are those threads for which a signal was on its way.
func signalled(t *testing.T, s *state.State) map[uint64]bool {
	all := map[uint64]bool{}
	for _, th := range s.Threads {
		all[baseOf(t, &th)] = len(th.Pending) > 0
	}
	return all
}

// inHandler reports whether a thread stands on the stack of its handlers.
func inHandler(t *testing.T, th *state.Thread) bool {
	r, err := trace.RegsOf(th.Regs)
	if err != nil {
		t.Fatal(err)
	}
	return r.Rsp-th.AltStack[0] < th.AltStack[2]
}

// baseOf is where a thread's own memory is, by which it is known again.
func baseOf(t *testing.T, th *state.Thread) uint64 {
	r, err := trace.RegsOf(th.Regs)
	if err != nil {
		t.Fatal(err)
	}
	return r.Fs_base
}

// TestClockBehind restores on a machine whose clock is behind the image's.
func TestClockBehind(t *testing.T) {
	sum, log := undisturbed(t)
	tr := newTrip(t, nativetest.Build(t, "trip", "default"))
	path := filepath.Join(tr.dir, "log")
	tr.start(append(tripArgs, path)...)
	const ahead = 500e9
	// The second time the stub of the first is part of the image.
	for i := range 3 {
		tr.steps(30, 20)
		img := rewrite(t, tr.image(whole.CaptureOptions{}), func(s *state.State) {
			s.Mono += ahead
			s.Boottime += 2 * ahead
		})
		tr.kill()
		if r := tr.restore(img); !strings.Contains(r.Note, "behind") {
			t.Errorf("restore %d: moved: %q", i, r.Note)
		}
	}
	tr.steps(200, 0)
	if got := tr.next("sum "); got != sum {
		t.Errorf("the sum is %s, undisturbed it is %s", got, sum)
	}
	if read(t, path) != log {
		t.Error("the log differs from an undisturbed one")
	}
}

// TestOtherKernel restores where the vdso is another one.
func TestOtherKernel(t *testing.T) {
	tr, img := imagedVictim(t, "4", "churn", "spin")
	for i, change := range []func(*state.State){
		func(s *state.State) { s.VDSO.Sum = "of another kernel" },
		func(s *state.State) { s.VDSO.Sum, s.VDSO.Symbols["__vdso_new_function"] = "newer", 0 },
		func(s *state.State) { s.VDSO.End += 2 * pages.Size },
		func(s *state.State) { s.VDSO.VVar = s.VDSO.VVar[1:] },
	} {
		r := tr.restore(rewrite(t, img, change))
		if r.Note == "" {
			t.Errorf("change %d: not moved", i)
		}
		tr.works(1)
		// And on, from an image that holds the jumps.
		again := tr.image(whole.CaptureOptions{})
		tr.kill()
		if r := tr.restore(again); r.Note != "" {
			t.Errorf("change %d, second restore: %s", i, r.Note)
		}
		tr.works(2)
		tr.kill()
	}
	busy := rewrite(t, img, func(s *state.State) { s.VDSO.Sum, s.VDSO.Busy = "of another kernel", true })
	if _, err := tr.tryRestore(busy); !errors.Is(err, state.ErrHost) {
		t.Errorf("interrupted in the other vdso: %v", err)
	}
}
