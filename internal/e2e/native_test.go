package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// nobody is the user without any privilege as whom the native tests run where
// the test itself runs as root.
const nobody = 65534

// nativeHouse is a house for transparent checkpoints, of an ordinary user; with
// GORUN_NATIVE_USER=self of the user who runs the test.
func nativeHouse(t testing.TB) *house {
	t.Helper()
	needNative(t)
	h := ownHouse(t)
	if os.Getuid() == 0 && os.Getenv("GORUN_NATIVE_USER") != "self" {
		h.user = &syscall.Credential{Uid: nobody, Gid: nobody}
		for _, dir := range []string{filepath.Dir(h.run), h.run, h.ckpt, h.dir("tmp")} {
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h
}

// rootHouse is the same for the user who runs the tests.
func rootHouse(t testing.TB) *house {
	t.Helper()
	needNative(t)
	return ownHouse(t)
}

// ownHouse has its own folder for temporary files, and finds when the test has
// ended whether anything was left behind.
func ownHouse(t testing.TB) *house {
	base, err := os.MkdirTemp("", "gorun-e2e-house-") // not t.TempDir: other users cannot go there
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, run: filepath.Join(base, "run"), ckpt: filepath.Join(base, "ckpt")}
	h.env = []string{"TMPDIR=" + h.dir("tmp")}
	for _, dir := range []string{h.run, h.ckpt, h.dir("tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			h.spotless()
		}
		for _, pid := range h.processes() { // of a test that has failed
			syscall.Kill(pid, syscall.SIGKILL)
		}
		os.RemoveAll(base)
	})
	return h
}

// dir is the path of a folder beside the others of the house.
func (h *house) dir(name string) string { return filepath.Join(filepath.Dir(h.run), name) }

// folder makes an empty folder that gorun's user may write to.
func (h *house) folder(name string) string {
	h.t.Helper()
	dir := h.dir(name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	if h.user != nil {
		if err := os.Chown(dir, int(h.user.Uid), int(h.user.Gid)); err != nil {
			h.t.Fatal(err)
		}
	}
	return dir
}

// processes lists all processes that belong to the house: head, agents, ranks,
// their children and the copies that are being written.
func (h *house) processes() (pids []int) {
	mark := []byte("XDG_RUNTIME_DIR=" + h.run + "\x00")
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(env, mark) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// describe tells about processes that should not be there.
func describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&b, "\n%.60s: %s", stat, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
	}
	return b.String()
}

// spotless waits until nothing of any job of the house is left: no process, no
// control folder, no temporary file, no half snapshot.
func (h *house) spotless() {
	h.t.Helper()
	h.clean()
	h.eventually("processes are left", func() string { return describe(h.processes()) })
	h.eventually("files are left", func() string {
		left, _ := filepath.Glob(filepath.Join(h.dir("tmp"), "*"))
		half, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "[0-9]*"))
		for _, dir := range half {
			if filepath.Base(filepath.Dir(dir)) == "sealed" {
				continue // images alone, by job
			}
			if _, err := os.Stat(filepath.Join(dir, snapshot.SchemaFile)); err != nil {
				left = append(left, dir)
			}
		}
		return strings.Join(left, " ")
	})
}

// eventually waits until wrong finds nothing wrong any more.
func (h *house) eventually(what string, wrong func() string) {
	h.t.Helper()
	testenv.Until(h.t, func() string {
		if text := wrong(); text != "" {
			return what + ": " + text
		}
		return ""
	})
}

// alive waits until a job has exactly its processes, none of them stopped: no
// copy is left, nobody is traced.
func (h *house) alive(p *proc, ranks int) {
	h.t.Helper()
	h.eventually("the job is not as it was", func() string {
		agents, children := p.family()
		if len(children) != ranks {
			return fmt.Sprintf("%d processes below the agents instead of %d:%s", len(children), ranks, describe(children))
		}
		for _, pid := range append(agents, children...) {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
			for _, name := range tasks {
				text, _ := os.ReadFile(name)
				if state := field(text, "State:"); strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") || field(text, "TracerPid:") != "0" {
					return fmt.Sprintf("%s: %s, traced by %s", name, state, field(text, "TracerPid:"))
				}
			}
		}
		return ""
	})
}

// field is a value of a file such as /proc/PID/status; "0" of one that is gone.
func field(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "0"
}

// run is a job that was started, or started again, and is up.
type run struct {
	*proc
	h    *house
	id   string // of this incarnation
	job  string
	pids []int // of agents and ranks when it was up
}

// up waits until all ranks of a job are up.
func (h *house) up(p *proc, file string) *run {
	h.t.Helper()
	r := &run{proc: p, h: h, job: jobID(h.t, p, file)}
	os.Remove(file)
	var jobs []struct {
		Incarnation string
		PID         int
	}
	if err := json.Unmarshal([]byte(h.must("ps", "-json")), &jobs); err != nil {
		h.t.Fatal(err)
	}
	for _, j := range jobs {
		if j.PID == p.cmd.Process.Pid {
			r.id = j.Incarnation
		}
	}
	agents, ranks := p.family()
	r.pids = append(agents, ranks...)
	return r
}

// pid is the process of a rank of a job. Its agent's children are in no certain order.
func (h *house) pid(job string, rank int) int {
	h.t.Helper()
	var status struct {
		Ranks []struct{ Rank, PID int }
	}
	if err := json.Unmarshal([]byte(h.must("status", "-json", job)), &status); err != nil {
		h.t.Fatal(err)
	}
	for _, of := range status.Ranks {
		if of.Rank == rank && of.PID > 0 {
			return of.PID
		}
	}
	h.t.Fatalf("gorun status does not list rank %d: %+v", rank, status)
	return 0
}

// nextFile names a file for a job's id that is not used yet.
func (h *house) nextFile() string {
	f, err := os.CreateTemp(h.run, "id-")
	if err != nil {
		h.t.Fatal(err)
	}
	f.Close()
	os.Remove(f.Name())
	return f.Name()
}

// nativeRun starts a job and waits until it is up.
func (h *house) nativeRun(np int, flags []string, program ...string) *run {
	h.t.Helper()
	file := h.nextFile()
	args := append([]string{"-np", strconv.Itoa(np), "-cr=native", "-v", "-jobid-file", file}, flags...)
	return h.up(h.start(append(args, program...)...), file)
}

// restart goes on from a snapshot and waits until all ranks are up.
func (h *house) restart(schema string, flags ...string) *run {
	h.t.Helper()
	file := h.nextFile()
	args := append([]string{"restart", "-v", "-jobid-file", file}, flags...)
	return h.up(h.start(append(args, schema)...), file)
}

// checkpoint takes a snapshot and returns the path of its schema.
func (r *run) checkpoint(flags ...string) string {
	r.h.t.Helper()
	out, errs, code := r.h.gorun(append(append([]string{"checkpoint"}, flags...), r.id)...)
	if code != 0 {
		r.h.t.Fatalf("checkpoint: exit %d\n%s\nthe job said:\n%s", code, errs, r.errs)
	}
	return strings.TrimSpace(out)
}

// kill kills everything that belongs to the run at once, and waits until it is
// gone.
func (r *run) kill() {
	r.h.t.Helper()
	agents, ranks := r.family()
	all := append([]int{r.cmd.Process.Pid}, append(agents, ranks...)...)
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.h.t.Fatal(err)
		}
	}
	r.wait()
	gone(r.h.t, slices.Concat(all[1:], r.pids)...)
}

// ended waits for the end of the run, which must be a good one, and returns the
// digest of the result.
func (r *run) ended() string {
	r.h.t.Helper()
	if code := r.wait(); code != 0 {
		r.h.t.Fatalf("exit %d\n%s", code, r.errs)
	}
	return digest(r.h.t, r.out.String())
}

// readSchema reads what a snapshot says of itself.
func readSchema(t testing.TB, path string) *snapshot.Schema {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.ParseSchema(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}
