package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// The file for the job's id is empty until the job is up: a script that waits for the id
// must not take that of the job before.
func TestJobIDFileIsEmptied(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(file, []byte("the job before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := h.start("-", "-np", "2", "-jobid-file", file, "sh", "-c", forever) // never in MPI, so never up
	p.out.wait(t, "up\n", 2)
	if b, err := os.ReadFile(file); err != nil || len(b) > 0 {
		t.Errorf("the file holds %q, %v", b, err)
	}
	h.must("kill", h.onlyJob())
	p.code()
	h.nothingLeft()
	nowhere := filepath.Join(t.TempDir(), "nosuch", "id")
	if _, errs, code := h.gorun("-jobid-file", nowhere, "true"); code != 1 || !strings.Contains(errs, "-jobid-file: ") {
		t.Errorf("a file that cannot be: exit %d, %q", code, errs)
	}
}

// The name given to -jobid-file stays what it is: a link leads to the file that holds the id,
// and a pipe is written to when all ranks are up.
func TestJobIDFileIsNoFile(t *testing.T) {
	h := newHouse(t)
	file, dir := filepath.Join(t.TempDir(), "id"), t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, []byte("the job before\n"), 0o600), os.Symlink(file, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // neither end waits for the other
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{link, pipe} {
		if _, errs, code := h.gorun("-np", "1", "-jobid-file", name, self(t), asRank, "count", "1"); code != 0 {
			t.Fatalf("%s: exit %d, %s", name, code, errs)
		}
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", st.Mode(), err)
	}
	if b, err := os.ReadFile(file); err != nil || len(b) != 37 {
		t.Errorf("the file it leads to holds %q, %v", b, err)
	}
	st, err := os.Lstat(pipe)
	if err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is now %v, %v", st.Mode(), err)
	}
	id := make([]byte, 37)
	if _, err := io.ReadFull(f, id); err != nil || id[36] != '\n' {
		t.Errorf("the pipe held %q, %v", id, err)
	}
	h.nothingLeft()
}

// gorun says by whom the job was ended, not that some rank was killed by somebody.
func TestToldToEnd(t *testing.T) {
	h := newHouse(t)
	p := h.start("-", "-np", "3", "sh", "-c", forever)
	p.out.wait(t, "up\n", 3)
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 143 || !strings.Contains(p.err.String(), "ended by SIGTERM, which gorun was sent") || strings.Contains(p.err.String(), "rank 0 was killed") {
		t.Errorf("exit %d, %q", code, p.err)
	}
	h.nothingLeft()
}

// A signal that -ckpt-on-signal asks for counts also where it was ignored when gorun
// was started, as SIGINT is in a shell's background job.
func TestCheckpointOnIgnoredSignal(t *testing.T) {
	h := newHouse(t)
	h.ignore = "INT"
	p, _ := h.countJob(limit, "-ckpt-on-signal", "INT")
	p.signal(syscall.SIGINT)
	if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "checkpointed and stopped") {
		t.Errorf("exit %d, %q", code, p.err)
	}
	h.nothingLeft()
}

// A job goes on after a death, and ends after a decision of the program's. Survivors
// see nothing of a death that a restart undoes.
func TestDeathsAndDecisions(t *testing.T) {
	for how, death := range map[string]bool{
		"signal": true, "connections": true, "panic": true, "panic in a goroutine": true, "status": true, "without Finalize": true,
		"abort": false, "error": false,
	} {
		t.Run(how, func(t *testing.T) {
			h := newHouse(t)
			out, errs, code := h.gorun("-np", "3", "-restarts", "1", "-rpi", "tcp", self(t), asRank, "end", how, filepath.Join(t.TempDir(), "begun"))
			if again := strings.Contains(errs, "restarting from the start"); again != death || (code == 0) != death {
				t.Errorf("exit %d, restarted %v, want %v: %s", code, again, death, errs)
			}
			if strings.Contains(out, "survivor sees an error") {
				t.Errorf("a survivor has seen an error:\n%s%s", out, errs)
			}
		})
	}
}

// The error that ends a rank is told once, by the rank.
func TestToldOnce(t *testing.T) {
	h := newHouse(t)
	for how, text := range map[string]string{"panic": "panic: boom", "error": "that will not do"} {
		_, errs, code := h.gorun("-np", "2", self(t), asRank, "end", how, filepath.Join(t.TempDir(), "begun"))
		if code != 1 || strings.Count(errs, text) != 1 || strings.Contains(errs, "; goroutine") {
			t.Errorf("%s: exit %d, %s", how, code, errs)
		}
	}
}

// A restart does what the job was told to do: in its second time slot a batch system
// sends the signal again, and in its third.
func TestRestartTakesThePlanOver(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-ckpt-on-signal", "USR1", "-ckpt-exit-status", "77", "-keep", "2", "-restarts", "1")
	for slot := range 3 {
		p.signal(syscall.SIGUSR1)
		if code := p.code(); code != 77 {
			t.Fatalf("slot %d: exit %d, %q", slot, code, p.err)
		}
		file := filepath.Join(t.TempDir(), "id")
		p = h.start("", "restart", "-jobid-file", file, "latest")
		h.jobID(p, file)
		const kept = "as the job was given them: -ckpt-on-signal SIGUSR1 -ckpt-exit-status 77 -keep 2 -restarts 1\n"
		if !strings.Contains(p.err.String(), kept) {
			t.Errorf("slot %d: %q", slot, p.err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(h.ckpt, id, "*", "schema.toml")); len(found) != 2 {
		t.Errorf("-keep 2 keeps %v", found)
	}
	_, ranks := p.family()
	syscall.Kill(ranks[1], syscall.SIGKILL)
	p.err.wait(t, "(1 of at most 1)", 1)
	h.must("kill", "-9", id)
	p.code()
	// A flag that is given again counts.
	file := filepath.Join(t.TempDir(), "id")
	p = h.start("", "restart", "-jobid-file", file, "-ckpt-exit-status", "78", "-restarts", "0", "latest")
	h.must("checkpoint", "-stop", h.jobID(p, file))
	if code := p.code(); code != 78 || strings.Contains(p.err.String(), "-restarts 1") {
		t.Errorf("exit %d, %q", code, p.err)
	}
	h.nothingLeft()
}

// What the job was told of its nodes counts in a restart that has nodes. One on this machine alone does without. A
// spare that the restart has not is not missed.
func TestRestartTakesTheNodesRulesOver(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-hosts", "localhost:2", "-oversubscribe", "-lease", "7s", "-shrink-to-fit", "-ssh", "ssh -p 2222", "-heartbeat", "1m")
	schema := strings.TrimSpace(h.must("checkpoint", "-stop", id))
	where := "-hosts localhost:2 -ssh 'ssh -p 2222' "
	if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "it goes on with: gorun restart "+where+schema+"\n") {
		t.Fatalf("exit %d, %q", code, p.err)
	}
	for _, c := range []struct {
		args   []string
		taken  string
		spares string
	}{
		{nil, "-heartbeat 1m0s\n", ""},
		{[]string{"-hosts", "localhost:1", "-shrink-to-fit=false", "-spares", "0"}, "-lease 7s -oversubscribe -heartbeat 1m0s\n", "0"},
		{[]string{"-hosts", "localhost:1"}, "-lease 7s -oversubscribe -spares 0 -shrink-to-fit=false -heartbeat 1m0s\n", "0"},
	} {
		file := filepath.Join(t.TempDir(), "id")
		p = h.start("", append(append([]string{"restart", "-jobid-file", file}, c.args...), "latest")...)
		schema = strings.TrimSpace(h.must("checkpoint", "-stop", h.jobID(p, file)))
		if code := p.code(); code != 75 || !strings.Contains(p.err.String(), "as the job was given them: "+c.taken) {
			t.Errorf("%q: exit %d, %q", c.args, code, p.err)
		}
		if s, err := snapshot.ReadSchema(schema); err != nil || len(c.args) > 0 && s.Plan["spares"] != c.spares {
			t.Errorf("%q: %v, %v", c.args, s, err)
		}
	}
	h.nothingLeft()
}

func TestCheckpointExitStatus(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-ckpt-exit-status", "99")
	h.must("checkpoint", "-stop", id)
	if code := p.code(); code != 99 {
		t.Errorf("exit %d, %q", code, p.err)
	}
	h.nothingLeft()
}
