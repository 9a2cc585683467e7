package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// forever is a program that says that it runs and does not end by itself,
// together with a child of its own.
const forever = `sleep 1000 & echo up; wait`

func TestExitStatus(t *testing.T) {
	sh := func(script string) []string { return []string{"-np", "3", "sh", "-c", script} }
	rank := func(what string) []string { return []string{"-np", "4", self(t), asRank, what} }
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"all well", sh("exit 0"), 0, ""},
		{"a status", sh("exit 7"), 7, "exited with status 7"},
		{"a signal", sh("kill -KILL $$"), 137, "was killed by signal 9 (SIGKILL)"},
		{"not found", []string{"nosuchprogram"}, 127, "not found in PATH"},
		{"no such file", []string{"./nosuch"}, 127, "no such file"},
		{"not executable", []string{"/etc/passwd"}, 126, "not executable"},
		{"a test", []string{"./rank_test.go"}, 126, "a test is no program"},
		{"a test of this folder", []string{"rank_test.go"}, 126, "a test is no program"},
		{"no program in a folder", []string{"/"}, 126, "without Go files"},
		{"timeout", []string{"-timeout", "50ms", "-np", "2", "sleep", "1000"}, 124, "-timeout 50ms"},
		{"wrong flag", []string{"-nosuch", "ls"}, 2, "-nosuch"},
		{"a script", []string{"-np", "2", "-cr=native", "ldd", os.Args[0]}, 126, "-cr=native: "}, // it may call Init, in what it is given
		{"needs -cr", []string{"-ckpt-every", "1s", "ls"}, 2, "-ckpt-every needs -cr"},
		{"a parameter's value", []string{"-np", "3", "-param", "tcp.eager=many", "ls"}, 2, "tcp.eager"},
		{"no such parameter", []string{"-param", "eager=1", "ls"}, 2, "-param eager: no such parameter"},
		{"transport", []string{"-rpi", "carrier-pigeon", "ls"}, 2, "known are rdma, shm, tcp"},
		{"MPI", rank("plain"), 0, ""},
		{"no Finalize", rank("no-finalize"), 1, "rank 1 exited with status 0 without calling Finalize"},
		{"no Init", rank("no-init"), 0, ""},
		{"abort", rank("abort"), 42, "rank 1 aborted the job with code 42"},
		{"death before consequences", rank("die"), 137, "rank 2 was killed by signal 9"},
		{"exit before consequences", rank("leave"), 5, "rank 2 exited with status 5"},
		{"byte orders", rank("foreign-order"), 1, "big-endian"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, errs, code := newHouse(t).gorun(c.args...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, want %d; says %q, want %q", code, c.code, errs, c.says)
			}
			if c.says == "" && errs != "" {
				t.Errorf("says %q without need", errs)
			}
		})
	}
}

func TestByteOrdersNameRanks(t *testing.T) {
	_, errs, _ := newHouse(t).gorun("-np", "2", self(t), asRank, "foreign-order")
	for _, want := range []string{"rank 0 is little-endian (amd64)", "rank 1 is big-endian (s390x)"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q lacks %q", errs, want)
		}
	}
}

func TestOutputAndInput(t *testing.T) {
	h := newHouse(t)
	p := h.start("one\ntwo\n", "-np", "3", "-agents", "2", "-tag-output", "sh", "-c", "cat; echo end; echo err >&2")
	if code := p.code(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.err)
	}
	lines := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
	slices.Sort(lines)
	if want := []string{"[0] end", "[0] one", "[0] two", "[1] end", "[2] end"}; !slices.Equal(lines, want) {
		t.Errorf("output %q, want %q", lines, want)
	}
	if got := strings.Count(p.err.String(), "] err\n"); got != 3 {
		t.Errorf("standard error %q", p.err)
	}
	h.nothingLeft()
}

// With -output-dir each rank has its files, in which a restart goes on.
func TestOutputDir(t *testing.T) {
	h := newHouse(t)
	dir := filepath.Join(t.TempDir(), "out")
	holds := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	sh := []string{"-np", "3", "-agents", "2", "-output-dir", dir, "sh", "-c", "echo out; echo err >&2"}
	for _, tag := range []string{"", "[1] "} { // the second job empties the files of the first
		args := sh
		if tag != "" {
			args = append([]string{"-tag-output"}, sh...)
		}
		out, errs, code := h.gorun(args...)
		if code != 0 || out != "" || errs != "" {
			t.Errorf("exit %d, says %q %q", code, out, errs)
		}
		holds("rank.1.out", tag+"out\n")
		holds("rank.1.err", tag+"err\n")
	}
	file := filepath.Join(t.TempDir(), "no folder")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("-output-dir", file, "true"); code != 1 || !strings.Contains(errs, "-output-dir "+file) {
		t.Errorf("a file: exit %d, %s", code, errs)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "rank.0.out")), os.Symlink("/dev/full", filepath.Join(dir, "rank.0.out"))); err != nil {
		t.Fatal(err)
	}
	_, errs, code := h.gorun("-output-dir", dir, "echo", "lost")
	if code != 1 || !strings.Contains(errs, "5 bytes of the ranks' output were lost: write "+dir+"/rank.0.out: no space left on device") {
		t.Errorf("a full disk: exit %d, %s", code, errs)
	}
	h.nothingLeft()
}

// A restart goes on in the files of its job, wherever it is begun.
func TestOutputDirRestart(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	p, id := h.countJob(limit, "-output-dir", dir)
	h.must("checkpoint", "-stop", id)
	p.code()
	before, err := os.ReadFile(filepath.Join(dir, "rank.0.out"))
	if err != nil || len(before) == 0 {
		t.Fatal(before, err)
	}
	t.Chdir(t.TempDir())
	if out, errs, code := h.gorun("restart", id, "--", self(t), asRank, "count", "1"); code != 0 || out != "" || !strings.Contains(errs, "-output-dir "+dir) {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
	after, err := os.ReadFile(filepath.Join(dir, "rank.0.out"))
	if err != nil || len(after) <= len(before) || !strings.HasPrefix(string(after), string(before)) {
		t.Errorf("%q, %v; before the restart %q", after, err, before)
	}
	if out, _, code := h.gorun("restart", "-output-dir", "", id, "--", self(t), asRank, "count", "1"); code != 0 || began(t, out) == 0 {
		t.Errorf("with none: exit %d, %q", code, out)
	}
	h.nothingLeft()
}

// More than any pipe or window holds, both ways, byte for byte.
func TestMuchThroughCat(t *testing.T) {
	h := newHouse(t)
	in := strings.Repeat("0123456789abcdef no newline here ", 200_000)
	p := h.start(in, "-np", "2", "cat")
	if code := p.code(); code != 0 || p.out.String() != in {
		t.Errorf("exit %d, %d bytes of %d: %.100s", code, len(p.out.String()), len(in), p.err)
	}
}

// A rank that does not read leaves gorun alone.
func TestUnreadInput(t *testing.T) {
	h := newHouse(t)
	p := h.start(strings.Repeat("x", 8<<20), "-np", "2", "true")
	if code := p.code(); code != 0 {
		t.Errorf("exit %d: %s", code, p.err)
	}
}

func TestWholeLines(t *testing.T) {
	h := newHouse(t)
	out, errs, code := h.gorun("-np", "8", "sh", "-c", `i=0; while [ $i -lt 200 ]; do printf 'abc'; printf 'def\n'; i=$((i+1)); done`)
	if code != 0 || out != strings.Repeat("abcdef\n", 1600) {
		t.Errorf("exit %d, %d bytes, %q", code, len(out), errs)
	}
}

func TestSignals(t *testing.T) {
	trap := `trap 'echo got' USR1; trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`
	t.Run("forwarded", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		p := h.start("-", "-np", "3", "sh", "-c", trap)
		p.out.wait(t, "up\n", 3)
		p.signal(syscall.SIGUSR1)
		p.out.wait(t, "got\n", 3)
		p.signal(syscall.SIGTERM)
		p.out.wait(t, "bye\n", 3)
		if code := p.code(); code != 0 {
			t.Errorf("ranks handled SIGTERM: exit %d\n%s", code, p.err)
		}
		h.nothingLeft()
	})
	t.Run("terminated", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		p := h.start("-", "-np", "3", "-restarts", "5", "sh", "-c", forever)
		p.out.wait(t, "up\n", 3)
		p.signal(syscall.SIGTERM)
		if code := p.code(); code != 143 {
			t.Errorf("exit %d\n%s", code, p.err)
		}
		h.nothingLeft()
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		p := h.start("-", "-np", "3", "sh", "-c", "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 1000 & wait; done")
		p.out.wait(t, "up\n", 3)
		p.signal(syscall.SIGINT)
		if code := p.code(); code != 130 || strings.Count(p.out.String(), "bye\n") != 3 {
			t.Errorf("exit %d\n%s%s", code, p.out, p.err)
		}
		h.nothingLeft()
	})
	t.Run("interrupted twice", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		p := h.start("-", "-np", "3", "sh", "-c", "trap '' INT; echo up; while :; do sleep 1000 & wait; done")
		p.out.wait(t, "up\n", 3)
		p.signal(syscall.SIGINT)
		p.err.wait(t, "once more kills them", 1)
		p.signal(syscall.SIGINT)
		if code := p.code(); code != 130 {
			t.Errorf("exit %d\n%s", code, p.err)
		}
		h.nothingLeft()
	})
	t.Run("stopped and continued", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		p := h.start("-", "-np", "2", "sh", "-c", `trap 'echo on' CONT; echo up; while :; do sleep 1000 & wait; done`)
		p.out.wait(t, "up\n", 2)
		p.signal(syscall.SIGTSTP)
		_, ranks := p.family()
		testenv.Until(t, func() string {
			for _, pid := range append(ranks, p.cmd.Process.Pid) {
				if state(pid) != 'T' {
					return fmt.Sprintf("process %d is in state %c", pid, state(pid))
				}
			}
			return ""
		})
		for _, verb := range []string{"status", "kill"} {
			q := h.start("", verb, h.onlyJob())
			if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "is suspended: its gorun") || !strings.Contains(q.err.String(), fmt.Sprintf("kill -CONT %d", p.cmd.Process.Pid)) {
				t.Errorf("%s: exit %d, %s", verb, code, q.err)
			}
		}
		if out := h.must("ps"); !strings.Contains(out, " suspended ") {
			t.Errorf("ps: %s", out)
		}
		p.signal(syscall.SIGCONT)
		p.out.wait(t, "on\n", 2)
		p.signal(syscall.SIGTERM)
		if code := p.code(); code != 143 {
			t.Errorf("exit %d\n%s", code, p.err)
		}
		h.nothingLeft()
	})
}

func state(pid int) byte {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(b), ')'); i > 0 && i+2 < len(b) {
		return b[i+2]
	}
	return '?'
}

// Whoever is killed, nothing of the job stays: no process, also none that a
// rank started, in its group or out of it, and no file.
func TestKilled(t *testing.T) {
	script := `sleep 1000 & setsid sleep 1000 & echo up; wait`
	for _, victim := range []string{"head", "agent", "rank"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			p := h.start("-", "-np", "4", "-agents", "2", "sh", "-c", script)
			p.out.wait(t, "up\n", 4)
			agents, ranks := p.family()
			want, pid := 137, ranks[2]
			switch victim {
			case "head":
				pid = p.cmd.Process.Pid
			case "agent":
				pid, want = agents[1], 1
			}
			syscall.Kill(pid, syscall.SIGKILL)
			if code := p.code(); code != want {
				t.Errorf("exit %d, want %d\n%s", code, want, p.err)
			}
			h.nothingLeft()
			for _, pid := range append(agents, ranks...) {
				testenv.Until(t, func() string {
					if zombie(pid) {
						return fmt.Sprintf("process %d is a zombie", pid)
					}
					return ""
				})
			}
			if victim == "agent" && !strings.Contains(p.err.String(), "with ranks 2-3") {
				t.Errorf("the lost agent's ranks are not named: %s", p.err)
			}
		})
	}
}

// Head and agents at once: the kernel ends the ranks, the next gorun command
// removes the files.
func TestEverybodyKilled(t *testing.T) {
	h := newHouse(t)
	p := h.start("-", "-np", "2", "sleep", "1000")
	testenv.Until(t, func() string {
		if _, ranks := p.family(); len(ranks) < 2 {
			return "the ranks do not start"
		}
		return ""
	})
	agents, _ := p.family()
	for _, pid := range append(agents, p.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGSTOP) // so that none acts before the last is dead
	}
	for _, pid := range append(agents, p.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.code()
	testenv.Until(t, func() string {
		if left := h.processes(); len(left) > 0 {
			return fmt.Sprintf("left running: %q", left)
		}
		return ""
	})
	if left, _ := os.ReadDir(filepath.Join(h.run, "gorun")); len(left) != 1 {
		t.Fatalf("control folders of dead heads: %v", left)
	}
	if out := h.must("ps"); strings.Count(out, "\n") != 1 {
		t.Errorf("ps lists a dead job: %s", out)
	}
	h.nothingLeft()
}

// An agent that is cut off, here stopped, is noticed by its silence.
func TestSilentAgent(t *testing.T) {
	h := newHouse(t)
	p := h.start("-", "-np", "4", "-agents", "2", "-heartbeat", "20ms", "sh", "-c", forever)
	p.out.wait(t, "up\n", 4)
	agents, _ := p.family()
	syscall.Kill(agents[0], syscall.SIGSTOP)
	if code := p.code(); code != 1 || !strings.Contains(p.err.String(), "has not answered for ") {
		t.Errorf("exit %d: %s", code, p.err)
	}
	h.nothingLeft()
}

func TestBuild(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.org/hello\n\ngo 1.25.0\n",
		"main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() { fmt.Println(\"hello\", os.Args[1]) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := h.gorun("-np", "2", dir, "world")
	if code != 0 || out != "hello world\nhello world\n" {
		t.Errorf("exit %d: %q %q", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() { wrong }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("-np", "2", dir); code != 1 || !strings.Contains(errs, "main.go:3") {
		t.Errorf("exit %d: %q", code, errs)
	}
}

// One file of package main is built and run, as by go run.
func TestBuildFile(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one.go", "package main\n\nimport \"os\"\n\nfunc main() { println(len(os.Args), os.Args[0], os.Args[1]) }\n")
	_, errs, code := h.gorun(filepath.Join(dir, "one.go"), "world")
	if code != 0 || errs != "2 one world\n" {
		t.Errorf("exit %d: %q", code, errs)
	}
	t.Chdir(dir) // by its name alone, too
	if _, errs, code := h.gorun("one.go", "world"); code != 0 || errs != "2 one world\n" {
		t.Errorf("exit %d: %q", code, errs)
	}
	write("one.go", "package main\n\nfunc main() { two() }\n")
	if _, errs, code := h.gorun("./one.go"); code != 1 || !strings.Contains(errs, "one.go:3") || strings.Contains(errs, "give the folder") {
		t.Errorf("an error: exit %d: %q", code, errs)
	}
	write("two.go", "package main\n\nfunc two() {}\n")
	if _, errs, code := h.gorun("./one.go"); code != 1 || !strings.HasSuffix(errs, "give the folder: gorun [flags] "+dir+"\n") {
		t.Errorf("one of two files: exit %d: %q", code, errs)
	}
	write("two.go", "package two\n")
	if _, errs, code := h.gorun("./two.go"); code != 1 || !strings.Contains(errs, "it must hold a package main") {
		t.Errorf("no main: exit %d: %q", code, errs)
	}
	h.nothingLeft()
}

// A build does not outlive its gorun: it would make the folder again.
func TestKilledWhileBuilding(t *testing.T) {
	h := newHouse(t)
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(dir, "main.go"): "package main\n",
		// Instead of go: one that never ends, with what the real one leaves open.
		filepath.Join(bin, "go"): "#!/bin/sh\ntouch $GOTMPDIR/building\nexec sleep 1000\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("GOTMPDIR", t.TempDir())
	p := h.start("", dir)
	testenv.Until(t, func() string {
		if found, _ := filepath.Glob(filepath.Join(h.tmp, "gorun-build-*", "building")); len(found) == 0 {
			return "go was not started with the build's folder for its own files"
		}
		return ""
	})
	p.signal(syscall.SIGKILL)
	p.code()
	testenv.Until(t, func() string {
		if left := h.processes(); len(left) > 0 {
			return fmt.Sprintf("left running: %q", left)
		}
		return ""
	})
	h.must("ps") // agents remove the folders, unless the head was killed before their first order: then the next command does
	h.nothingLeft()
}

func TestPsStatusKill(t *testing.T) {
	h := newHouse(t)
	if out := h.must("ps", "-json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("no jobs: %q", out)
	}
	p := h.start("-", "-np", "3", "-agents", "2", "sh", "-c", forever)
	p.out.wait(t, "up\n", 3)
	var jobs []control.Status
	if err := json.Unmarshal([]byte(h.must("ps", "-json")), &jobs); err != nil || len(jobs) != 1 {
		t.Fatalf("ps -json: %v, %v", jobs, err)
	}
	j := jobs[0]
	for _, name := range []string{"", j.Incarnation, j.Incarnation + "/control.sock"} {
		if st, err := os.Stat(filepath.Join(h.run, "gorun", name)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("control folder, %q: %v, %v, want mode 0700", name, st.Mode(), err)
		}
	}
	_, ranks := p.family()
	var pids []int
	for i, r := range j.Ranks {
		pids = append(pids, r.PID)
		if want := i * 2 / 3; r.Rank != i || r.Agent != want && i != 1 {
			t.Errorf("rank %d: %+v", i, r)
		}
	}
	slices.Sort(pids)
	slices.Sort(ranks)
	if j.NP != 3 || j.State != "running" || !slices.Equal(pids, ranks) {
		t.Errorf("%+v, ranks %v", j, ranks)
	}
	for _, id := range []string{j.Job, j.Job[:4], j.Incarnation[:5], ""} {
		args := []string{"status"}
		if id != "" {
			args = append(args, id)
		}
		if out := h.must(args...); !strings.Contains(out, j.Job) {
			t.Errorf("status %s: %s", id, out)
		}
	}
	q := h.start("", "status", "zzzz")
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "running: "+j.Job) {
		t.Errorf("an id that fits nothing: exit %d, %s", code, q.err)
	}
	q = h.start("", "checkpoint", j.Job)
	if code := q.code(); code != 1 || !strings.Contains(q.err.String(), "-cr") {
		t.Errorf("checkpoint without -cr: exit %d, %s", code, q.err)
	}
	h.must("kill", j.Job[:8])
	if code := p.code(); code != 143 || !strings.Contains(p.err.String(), "gorun kill") {
		t.Errorf("exit %d: %s", code, p.err)
	}
	h.nothingLeft()
}

// The ranks get none of gorun's descriptors but its streams.
func TestNothingInherited(t *testing.T) {
	fd, err := syscall.Dup(0) // open in every child from here on
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	out, errs, code := newHouse(t).gorun("-np", "2", "sh", "-c", fmt.Sprintf("[ ! -e /proc/$$/fd/%d ]", fd))
	if code != 0 {
		t.Errorf("descriptor %d has come to the ranks: exit %d %s%s", fd, code, out, errs)
	}
}

// A start that takes long tells how far it is.
func TestSlowStart(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	p := h.start("", "-v", "-np", "2", self(t), asRank, "late", pipe)
	p.err.wait(t, "gorun: 2 of 2 ranks are started, 1 of them in Init, after ", 2)
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if code := p.code(); code != 0 {
		t.Errorf("exit %d: %s", code, p.err)
	}
	h.nothingLeft()
}

// More ranks than map each other at the start, and than make a team, agree on a sum.
func TestManyRanks(t *testing.T) {
	h := newHouse(t)
	p := h.start("", "-np", "150", self(t), asRank, "count", "3")
	if code := p.code(); code != 0 || !strings.Contains(p.out.String(), "sum 33975 ") {
		t.Errorf("exit %d: %s%s", code, p.out, p.err)
	}
	h.nothingLeft()
}
