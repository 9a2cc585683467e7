package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// scene is a situation of package subject that is imaged and restarted.
type scene struct {
	name  string
	np    int
	flags []string // of gorun
	more  int      // further checkpoints, at other moments
	alone bool     // the run must end before its snapshot is restarted: it has files open
}

var nativeScenes = []scene{
	{name: "wildcard", np: 3},
	{name: "ssend", np: 2},
	{name: "rendezvous", np: 3},
	{name: "stream", np: 4, more: 4},
	{name: "ring", np: 5, more: 4},
	{name: "collectives", np: 4},
	{name: "alltoall", np: 4},
	{name: "asleep", np: 4, flags: []string{"-agents", "2"}},
	{name: "pending", np: 3, flags: []string{"-agents", "2"}},
	{name: "begun", np: 4, more: 1},
	{name: "kinds", np: 3},
	{name: "probes", np: 3},
	{name: "order", np: 3},
	{name: "silent", np: 4},
	{name: "split", np: 4, flags: []string{"-ckpt-codec", "zstd"}},
	{name: "timers", np: 2, more: 2},
	{name: "gc", np: 2, more: 3},
	{name: "tight", np: 2, more: 3},
	{name: "kernel", np: 2, more: 2},
	{name: "goroutines", np: 2},
	{name: "stacks", np: 2},
	{name: "pipe", np: 2},
	{name: "descriptors", np: 2, alone: true},
	{name: "files", np: 2, alone: true},
	{name: "finalize", np: 3},
}

// stage starts a scene in a folder of its own and waits until all ranks are in
// the situation.
func (h *house) stage(s *scene, args ...string) (r *run, dir string) {
	h.t.Helper()
	dir = h.folder("stage")
	program := append([]string{filepath.Join(bin, "subject"), "-dir", dir}, args...)
	r = h.nativeRun(s.np, s.flags, append(program, s.name)...)
	r.inPlace(s.np)
	return r, dir
}

// inPlace waits until n ranks are in the situation.
func (r *run) inPlace(n int) {
	r.h.t.Helper()
	if !r.errs.wait("here ", n) {
		r.h.t.Fatalf("not all ranks came into the situation:\n%s", r.errs)
	}
}

// signal makes a file that ranks wait for.
func (h *house) signal(dir, name string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// A restart beside the run that was imaged has to be asked for.
var beside = []string{"-files", "copy"}

// TestNativeScenes images ranks in every situation that breaks such systems. The
// run itself, and the restart of a snapshot of a restart of a snapshot of it,
// must end as if nothing had been.
func TestNativeScenes(t *testing.T) {
	for _, s := range nativeScenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			s.flags = append(anyCarrier(t), s.flags...)
			first, dir := h.stage(&s)
			schema := first.checkpoint()
			for range s.more {
				schema = first.checkpoint()
			}
			h.alive(first.proc, s.np)
			var flags []string
			if s.alone {
				first.kill()
			} else {
				flags = beside
			}
			second := h.restart(schema, append(anyCarrier(t), flags...)...)
			schema = second.checkpoint()
			second.kill()
			third := h.restart(schema, append(anyCarrier(t), flags...)...)
			h.signal(dir, "go")
			want := third.ended()
			if !s.alone {
				if got := first.ended(); got != want {
					t.Errorf("digest of the run that was imaged %s, of the restarted one %s", got, want)
				}
			}
		})
	}
}

// refuses expects that a checkpoint is refused with all of the words, and the
// ranks as they were.
func (r *run) refuses(np int, words ...string) {
	r.h.t.Helper()
	_, errs, code := r.h.gorun("checkpoint", "-timeout", "20s", r.id)
	if code == 0 {
		r.h.t.Fatal("the checkpoint was not refused")
	}
	for _, w := range words {
		if !strings.Contains(errs, w) {
			r.h.t.Errorf("no %q in what checkpoint says:\n%s", w, errs)
		}
	}
	r.h.alive(r.proc, np)
}

// TestNativeRefused asks for what cannot be had: it is said why, and the job
// goes on.
func TestNativeRefused(t *testing.T) {
	for _, s := range []struct {
		name  string
		words []string
	}{
		{"sharedmap", []string{"rank", "beside", "of 65 MB", "open for reading and writing"}},
		{"undumpable", []string{"rank", "PR_SET_DUMPABLE"}},
		{"finalized", []string{"inaliz"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			if s.name == "undumpable" && h.user == nil && os.Getuid() == 0 {
				t.Skip("root may read any process")
			}
			r, dir := h.stage(&scene{name: s.name, np: 2})
			r.refuses(2, s.words...)
			h.signal(dir, "go")
			r.ended()
		})
	}
}

// A rank is imaged with its child process, and restarted with it, from an image of the restarted one, too.
func TestNativeChild(t *testing.T) {
	h := nativeHouse(t)
	r, dir := h.stage(&scene{name: "child", np: 2})
	for range 2 {
		schema := r.checkpoint()
		r.kill()
		r = h.restart(schema)
	}
	h.signal(dir, "childless")
	if !r.errs.wait(`without child: "before\nafter\n"`, 1) {
		t.Fatalf("the child is not as it was:\n%s", r.errs)
	}
	h.signal(dir, "go")
	r.ended()
}

// A program that knows nothing of gorun is restarted with all that it has started, also from the image of a restarted one.
func TestNativeAnything(t *testing.T) {
	h := nativeHouse(t)
	dir := h.folder("stage")
	const script = `
		(n=0; while [ ! -e "$0/go" ]; do n=$((n+1)); echo $n; sleep 0.01; done; echo end) | {
			last=0
			while read x; do
				[ "$x" = end ] && { echo "no step is missing in rank $GORUN_RANK of $GORUN_SIZE" >&2; exit 0; }
				[ "$x" = $((last+1)) ] || { echo "step $x follows $last" >&2; exit 5; }
				[ "$x" = 20 ] && echo "step 20" >&2
				last=$x
			done
		}`
	r := h.nativeRun(2, nil, "sh", "-c", script, dir)
	if !r.errs.wait("step 20", 2) {
		t.Fatal(r.errs)
	}
	for range 2 {
		schema := r.checkpoint()
		r.kill()
		r = h.restart(schema)
	}
	h.signal(dir, "go")
	if code := r.wait(); code != 0 || !r.errs.wait("no step is missing in rank 0 of 2", 1) || !r.errs.wait("no step is missing in rank 1 of 2", 1) {
		t.Errorf("status %d: %s", code, r.errs)
	}
	hidden := fmt.Sprintf("P=%s; exec ${P}/sub''ject -dir %s init", bin, dir)
	if _, errs, code := h.gorun("-np", "2", "-cr=native", "sh", "-c", hidden); code == 0 || !strings.Contains(errs, "was taken for a program that knows nothing of gorun") {
		t.Errorf("status %d: %s", code, errs)
	}
	if _, errs, code := h.gorun("-np", "1", "-cr=native", "sh", "-c", "exit 3"); code != 3 {
		t.Errorf("status %d: %s", code, errs)
	}
	if _, errs, code := h.gorun("-np", "1", "-cr=native", "sh", "-c", "kill -SEGV $$"); code != 139 || !strings.Contains(errs, "was killed by SIGSEGV") {
		t.Errorf("status %d: %s", code, errs)
	}
}

// A request while a rank is not yet in Init is answered, by name of the rank,
// and the job goes on.
func TestNativeInit(t *testing.T) {
	h := nativeHouse(t)
	dir := h.folder("stage")
	file := h.nextFile()
	p := h.start("-np", "2", "-cr=native", "-jobid-file", file, filepath.Join(bin, "subject"), "-dir", dir, "init")
	if !p.errs.wait("here ", 1) {
		t.Fatalf("no rank is before Init:\n%s", p.errs)
	}
	_, errs, code := h.gorun("checkpoint", "-timeout", "50ms")
	if code == 0 || !strings.Contains(errs, "not all ranks are up") {
		t.Errorf("checkpoint while a rank is before Init: exit %d\n%s", code, errs)
	}
	asked := h.start("checkpoint")
	h.signal(dir, "go")
	code = asked.wait()
	if end := p.wait(); end != 0 {
		t.Fatalf("exit %d\n%s", end, p.errs)
	}
	// The ranks may have been in Finalize before the request could be met.
	if code != 0 && !strings.Contains(asked.errs.String(), "inaliz") && !strings.Contains(asked.errs.String(), "end") {
		t.Errorf("checkpoint: exit %d\n%s", code, asked.errs)
	}
}

// Signals that the program has asked for reach it after a restart.
func TestNativeNotify(t *testing.T) {
	h := nativeHouse(t)
	s := scene{name: "notify", np: 2}
	first, _ := h.stage(&s)
	second := h.restart(first.checkpoint(), beside...)
	for _, r := range []*run{first, second} {
		if err := syscall.Kill(r.cmd.Process.Pid, syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		r.ended()
	}
}

// A connection of the program's own lives on in the run that is imaged, and is
// closed in the one that is restarted.
func TestNativeConnection(t *testing.T) {
	h := nativeHouse(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // an echo
				defer c.Close()
				buf := make([]byte, 4)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					c.Write(buf[:n])
				}
			}()
		}
	}()
	first, dir := h.stage(&scene{name: "conn", np: 2}, "-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	second := h.restart(first.checkpoint(), beside...)
	h.signal(dir, "go")
	first.ended()
	second.ended()
	if n := strings.Count(first.errs.String(), "alive=true"); n != 2 {
		t.Errorf("connections of the run that was imaged:\n%s", first.errs)
	}
	if n := strings.Count(second.errs.String(), "alive=false"); n != 2 {
		t.Errorf("connections of the restarted run:\n%s", second.errs)
	}
}

// Standard input goes on with that of the new gorun.
func TestNativeStdin(t *testing.T) {
	h := nativeHouse(t)
	dir, file := h.folder("stage"), h.nextFile()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	p := h.startWith(in, "-np", "2", "-cr=native", "-jobid-file", file, filepath.Join(bin, "subject"), "-dir", dir, "stdin")
	feed.WriteString("one\n")
	first := h.up(p, file)
	first.inPlace(2)
	schema := first.checkpoint()
	second := h.up(h.startWith(strings.NewReader("two\n"), "restart", "-files", "copy", "-jobid-file", file, schema), file)
	second.ended()
	feed.WriteString("two\n")
	first.ended()
}
