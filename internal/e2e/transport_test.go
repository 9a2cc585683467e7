package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// everybody is a program whose ranks exchange large messages among all.
func (h *house) everybody() []string {
	h.t.Helper()
	dir := h.folder("everybody")
	h.signal(dir, "go")
	return []string{filepath.Join(bin, "subject"), "-dir", dir, "asleep"}
}

// TestTransports: -v and status tell which transport carries what, and why not
// another; a job does what it does over any.
func TestTransports(t *testing.T) {
	h := nativeHouse(t)
	want := digest(t, h.must(append([]string{"-np", "4"}, h.everybody()...)...))
	for _, c := range []struct {
		flags []string
		says  []string
		never string
	}{
		{nil, []string{"transports: shm\n"}, "tcp"},
		{[]string{"-agents", "2"}, []string{"transports: shm\n"}, "tcp"},
		{[]string{"-rpi", "tcp"}, []string{"transports: tcp\n"}, "shm"},
		{[]string{"-agents", "2", "-param", "job.nodes=agents"},
			[]string{"transport shm: 4 pairs of ranks are on different nodes\n", "transports: shm (2 pairs of ranks), tcp (4 pairs of ranks)\n"}, "cannot"},
		{[]string{"-agents", "4", "-param", "job.nodes=agents"}, []string{"transport shm: 6 pairs of ranks are on different nodes\n", "transports: tcp\n"}, "cannot"},
	} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			dir := filepath.Join(h.dir("everybody"))
			os.Remove(filepath.Join(dir, "go"))
			r := h.stageOver(nil, append([]string{"-v"}, c.flags...), "-dir", dir, "asleep")
			status := h.must("status", r.id)
			h.signal(dir, "go")
			if got := r.ended(); got != want {
				t.Errorf("digest %s instead of %s", got, want)
			}
			said := r.errs.String() + "\n"
			for _, words := range c.says {
				if !strings.Contains(said, words) {
					t.Errorf("-v does not say %q but\n%s", words, said)
				}
				words = strings.TrimPrefix(strings.TrimPrefix(words, "transport "), "transports: ")
				if !strings.Contains(status, words) {
					t.Errorf("status does not say %q but\n%s", words, status)
				}
			}
			if strings.Contains(said, c.never) {
				t.Errorf("%q was not to be said:\n%s", c.never, said)
			}
		})
	}
}

// TestUnreachable: ranks that the named transports do not join are an error, and
// the remedy is told.
func TestUnreachable(t *testing.T) {
	h := newHouse(t)
	_, errs, code := h.gorun("-np", "3", "-rpi", "shm", "-agents", "2", "-param", "job.nodes=agents", filepath.Join(bin, "ring"))
	const want = "gorun: rank 0 and rank 1 cannot reach each other over -rpi shm (shm: on different nodes): name a transport that reaches all: -rpi shm,tcp"
	if code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code = h.gorun("-np", "2", "-param", "job.nodes=houses", filepath.Join(bin, "ring")); code != 2 || !strings.Contains(errs, "hosts and agents") {
		t.Errorf("exit %d: %s", code, errs)
	}
	h.clean()
}

// TestConfined: what the kernel denies to one rank or to all costs nothing but
// time. It is told where the next transport has to help.
func TestConfined(t *testing.T) {
	const direct = "-param=shm.direct=65536"
	const heed = "cannot heed shm.direct: process_vm_readv: operation not permitted; let the filter of system calls (seccomp) allow it"
	for _, c := range []struct {
		name  string
		what  []string
		flags []string
		says  string
		never string
		fails string // with -rpi shm
	}{
		{name: "memory, everywhere", what: []string{"memfd"}, says: "transport shm: ranks 0-3 cannot use it: not available here: memfd_create: operation not permitted", fails: "memfd_create: operation not permitted"},
		{name: "memory, at one rank", what: []string{"-claim", "", "memfd"}, says: " cannot use it: not available here: memfd_create: operation not permitted", fails: "-rpi shm,tcp"},
		{name: "size", what: []string{"fsize"}, says: "transport shm: ranks 0-3 cannot use it: not available here: segment of", fails: "file too large"},
		{name: "copies, everywhere", what: []string{"direct"}, never: "transport"},
		{name: "copies, at one rank", what: []string{"-claim", "", "direct"}, never: "transport"},
		{name: "copies that are wanted, everywhere", what: []string{"direct"}, flags: []string{direct}, says: "transport shm: at ranks 0-3 it " + heed, never: "more"},
		{name: "copies that are wanted, at one rank", what: []string{"-claim", "", "direct"}, flags: []string{direct}, says: " it " + heed, never: "at ranks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := ownHouse(t)
			program := h.everybody()
			want := digest(t, h.must(append([]string{"-np", "4"}, program...)...))
			confined := func(claim string) []string {
				what := append([]string{filepath.Join(bin, "confine")}, c.what...)
				if what[1] == "-claim" {
					what[2] = h.dir(claim)
				}
				return append(what, program...)
			}
			out, errs, code := h.gorun(slices.Concat([]string{"-np", "4"}, c.flags, confined("a"))...)
			if code != 0 || !strings.Contains(errs, c.says) || c.never != "" && strings.Contains(errs, c.never) {
				t.Fatalf("exit %d: %s", code, errs)
			}
			if got := digest(t, out); got != want {
				t.Errorf("digest %s instead of %s", got, want)
			}
			_, errs, code = h.gorun(append([]string{"-np", "4", "-rpi", "shm"}, confined("b")...)...)
			if (code == 0) != (c.fails == "") || !strings.Contains(errs, c.fails) {
				t.Errorf("-rpi shm: exit %d: %s", code, errs)
			}
		})
	}
}

// TestConfinedLater: a program that forbids itself copies from process to process goes
// on without, and none of its ranks takes another for dead. Who has asked for such
// copies is told once.
func TestConfinedLater(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		told  int
	}{
		"usual":  {nil, 0},
		"wanted": {[]string{"-param", "shm.direct=65536"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := ownHouse(t)
			stdin, line := io.Pipe()
			r := h.stageOver(stdin, c.flags, "confined")
			var status string
			for _, here := range []int{4, 8} { // before and after
				r.inPlace(here)
				for range 3 { // longer than they take to look after each other
					r.idle()
				}
				status = h.must("status", r.id)
				fmt.Fprintln(line)
			}
			line.Close()
			r.ended()
			const words = " it can no longer heed shm.direct: process_vm_"
			if told := strings.Count(r.errs.String(), words); told != c.told || (strings.Count(status, words) > 0) != (c.told > 0) {
				t.Errorf("told %d times:\n%s\n%s", told, r.errs, status)
			}
		})
	}
}

// TestHermit: a rank that the others may not look into looks into them. None of
// the pairs with it uses shared memory, all others do.
func TestHermit(t *testing.T) {
	h := nativeHouse(t)
	if h.user == nil && os.Getuid() == 0 {
		t.Skip("root may look into any process")
	}
	program := h.everybody()
	want := digest(t, h.must(append([]string{"-np", "4"}, program...)...))
	want = strings.Replace(want, "asleep", "hermit", 1)
	program[len(program)-1] = "hermit"
	p := h.start(append([]string{"-v", "-np", "4"}, program...)...)
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.errs)
	}
	if got := digest(t, p.out.String()); got != want {
		t.Errorf("digest %s instead of %s", got, want)
	}
	for _, words := range []string{"transports: shm (3 pairs of ranks), tcp (3 pairs of ranks)", "permission denied"} {
		if !strings.Contains(p.errs.String(), words) {
			t.Errorf("-v does not say %q but\n%s", words, p.errs)
		}
	}
}

// TestKilledInStream kills a rank that sends and receives all the while: the job
// ends, says who it was, and leaves nothing.
func TestKilledInStream(t *testing.T) {
	for _, flags := range carriers {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			h := ownHouse(t)
			r := h.stageOver(nil, flags, "-dir", h.folder("stage"), "stream")
			r.inPlace(4)
			h.shares(r)
			syscall.Kill(h.pid(r.id, 1), syscall.SIGKILL)
			if code := r.wait(); code != 128+int(syscall.SIGKILL) || !strings.Contains(r.errs.String(), "rank 1 was killed by signal 9") {
				t.Errorf("exit %d: %s", code, r.errs)
			}
			gone(t, r.pids...)
		})
	}
}

// shares expects that shared memory has no name anywhere, and that no rank holds
// more of it open than its own.
func (h *house) shares(r *run) {
	h.t.Helper()
	if left, _ := filepath.Glob("/dev/shm/*gorun*"); len(left) > 0 {
		h.t.Errorf("shared memory with a name: %v", left)
	}
	for _, pid := range r.pids {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		n := 0
		for _, fd := range open {
			if name, _ := os.Readlink(fd); strings.HasPrefix(name, "/memfd:gorun") {
				n++
			}
		}
		if n > 1 {
			h.t.Errorf("process %d has %d pieces of shared memory open", pid, n)
		}
	}
}

// TestIdle: ranks that wait for each other use no processor, whatever they wait
// on.
func TestIdle(t *testing.T) {
	for _, flags := range carriers {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			h := ownHouse(t)
			stdin, end := io.Pipe()
			r := h.stageOver(stdin, flags, "idle")
			r.inPlace(4)
			r.idle()
			end.Close()
			r.ended()
		})
	}
}

// idle waits until the ranks use no processor.
func (r *run) idle() {
	r.h.t.Helper()
	r.h.eventually("waiting ranks use the processor", func() string {
		before := r.ticks()
		for range 250 {
			poll()
		}
		if used := r.ticks() - before; used > 2 { // of 10 ms, all together, in half a second
			return fmt.Sprintf("%d ticks", used)
		}
		return ""
	})
}

// TestStopped: a rank that does not answer is waited for, by ranks that use no
// processor meanwhile, for longer than they take to look after each other.
func TestStopped(t *testing.T) {
	for _, flags := range carriers {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			h := ownHouse(t)
			dir := h.folder("stage")
			r := h.stageOver(nil, flags, "-dir", dir, "stream")
			r.inPlace(4)
			syscall.Kill(h.pid(r.id, 2), syscall.SIGSTOP)
			for range 3 {
				r.idle()
			}
			h.signal(dir, "go")
			syscall.Kill(h.pid(r.id, 2), syscall.SIGCONT)
			r.ended()
		})
	}
}

// stageOver starts a scene without checkpoints and waits until its ranks are up.
func (h *house) stageOver(stdin io.Reader, flags []string, scene ...string) *run {
	h.t.Helper()
	file := h.nextFile()
	args := slices.Concat([]string{"-np", "4", "-jobid-file", file}, flags, []string{filepath.Join(bin, "subject")}, scene)
	return h.up(h.startWith(stdin, args...), file)
}

// ticks is the processor time that the ranks have used.
func (r *run) ticks() (n int) {
	_, ranks := r.family()
	for _, pid := range ranks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		var user, system int
		if f := strings.Fields(rest); len(f) > 12 {
			fmt.Sscan(f[11]+" "+f[12], &user, &system)
		}
		n += user + system
	}
	return n
}
