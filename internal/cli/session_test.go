package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// A session is how a user comes to a machine: what is left of the environment, and whether the runtime folder that others have is there.
type session struct {
	name string
	env  func(h *house) []string
}

// sessions are those from which gorun is used. The first is the one that jobs are started from.
var sessions = []session{
	{"login", func(h *house) []string { return append(os.Environ(), "XDG_RUNTIME_DIR="+h.run) }},
	{"cron", func(h *house) []string {
		return []string{"HOME=" + h.home(), "LOGNAME=root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
	}},
	{"su", func(h *house) []string { // without a dash: much is still the other user's
		return append(os.Environ(), "HOME="+h.home(), "XDG_RUNTIME_DIR=/run/user/4711")
	}},
	{"su, of a user who is logged in", func(h *house) []string { return append(os.Environ(), "XDG_RUNTIME_DIR="+foreignFolder(h.t)) }},
	{"ssh", func(h *house) []string {
		return []string{"HOME=" + h.home(), "USER=root", "PATH=/usr/bin:/bin", "SSH_CONNECTION=192.0.2.1 1 192.0.2.2 22", "XDG_RUNTIME_DIR=" + h.t.TempDir()}
	}},
	{"systemd", func(h *house) []string { return []string{"PATH=/usr/bin:/bin", "INVOCATION_ID=1"} }},
	{"GORUN_DIR", func(h *house) []string { return append(os.Environ(), "GORUN_DIR="+h.t.TempDir()) }},
}

// home is the home of the house.
func (h *house) home() string { return filepath.Dir(h.ckpt) }

// foreignFolder is a runtime folder of another user, if there can be one.
func foreignFolder(t *testing.T) string {
	dir := t.TempDir()
	os.Chown(dir, 65534, 65534) // as root; another's test has a second one of its own
	return dir
}

// from runs gorun in a session and returns all that it says.
func (h *house) from(s session, args ...string) (said string, code int) {
	h.t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{asGorun}, args...)...)
	cmd.Env = append(s.env(h), "GORUN_REALM="+h.run, "TMPDIR="+h.tmp, markVar+"="+h.mark)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// asks are the verbs that ask a running job something, with arguments, and what they say; %s is the job's id. Those that are told apart by always are
// used from every session, the others from some.
var asks = []struct {
	args, says string
	always     bool
}{
	{"ps", "%s", true},
	{"status", "%s", true},
	{"status %s", "running", false},
	{"stacks %s", "rank 2", false},
	{"checkpoint", "schema.toml", true},
	{"hold %s", "", false},
	{"release %s", "", false},
	{"suspend %s", "", false},
	{"resume %s", "", false},
	{"join %s -node n9", "", false},
	{"migrate %s -rank 0 -to n9", "", false},
	{"swap-out %s", "", false},
	{"swap-in %s", "", false},
	{"plan %s", "", false},
	{"snapshots -ckpt-dir CKPT %s", "%s", false},
	{"snapshots -ckpt-dir CKPT -remove %s", "running", false},
	{"restart -ckpt-dir CKPT %s", "still running on this machine", false},
	{"restart -ckpt-dir CKPT latest", "still running on this machine", false},
	{"restart SCHEMA", "still running on this machine", true},
	{"run -np 3 -cr -ckpt-dir CKPT -restart-latest PROGRAM __rank count 1000000", "still running on this machine", true},
}

// asksNone are the verbs that have nothing to do with running jobs. What kill and wait do is at the end of the test.
var asksNone = []string{"key", "image", "vet", "devices", "info", "version", "completion", "help", "kill", "wait"}

func asked(verb string) bool {
	for _, a := range asks {
		if strings.Fields(a.args)[0] == verb {
			return true
		}
	}
	return false
}

// TestSessions checks that every verb finds a job that was started in another session, also when that is over and its folder is gone; and no second copy
// of the job is started from any.
func TestSessions(t *testing.T) {
	for i := range commands {
		name := commands[i].name
		if !slices.Contains(asksNone, name) && !asked(name) {
			t.Errorf("%s is not tested", name)
		}
	}
	h := newHouse(t)
	t.Setenv("GORUN_DIR", "")
	p, id := h.countJob(1_000_000)
	schema := strings.TrimSpace(h.must("checkpoint", id))
	all := func(s session, every bool) {
		for _, a := range asks {
			if !every && !a.always {
				continue
			}
			args := strings.NewReplacer("%s", id, "CKPT", h.ckpt, "SCHEMA", schema, "PROGRAM", self(t)).Replace(a.args)
			want := strings.ReplaceAll(a.says, "%s", id)
			if said, _ := h.from(s, strings.Fields(args)...); !strings.Contains(said, want) || strings.Contains(said, "no job of yours") {
				t.Errorf("from %s: gorun %s: %s\nwant %q", s.name, args, said, want)
			}
		}
	}
	for _, s := range sessions {
		all(s, s.name == "cron")
	}
	if err := os.RemoveAll(h.run); err != nil { // logged out
		t.Fatal(err)
	}
	for _, s := range sessions[:2] {
		s.name += ", after logout"
		all(s, s.name == "login, after logout")
	}
	waits := make(chan int)
	go func() {
		_, code := h.from(sessions[1], "wait", id)
		waits <- code
	}()
	testenv.Until(t, func() string { // both: this one's request comes after the other's
		if n := len(h.processes()); n < 6 {
			return fmt.Sprintf("%d processes", n)
		}
		return ""
	})
	if said, code := h.from(sessions[1], "kill", id); code != 0 {
		t.Errorf("kill: exit %d, %s", code, said)
	}
	if code := p.code(); code != 143 {
		t.Errorf("killed: exit %d, %s", code, p.err)
	}
	<-waits
	h.nothingLeft()
}

// TestAtOnce restarts a dead job several times at the same instant: one goes on, and the others are refused.
func TestAtOnce(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(1_000_000)
	h.must("checkpoint", "-stop", id)
	p.code()
	h.nothingLeft()
	const heads = 4
	var all []*proc
	for i := range heads {
		args := []string{"restart", id}
		if i%2 == 1 {
			args = []string{"-np", "3", "-cr", "-restart-latest", self(t), asRank, "count", "1000000"}
		}
		all = append(all, h.start("", args...))
	}
	refused := make(chan *proc, heads)
	for _, p := range all {
		go func() { <-p.done; refused <- p }()
	}
	for range heads - 1 {
		if p := <-refused; p.code() != 1 || !strings.Contains(p.err.String(), id) {
			t.Errorf("refused: exit %d, %s", p.code(), p.err)
		}
	}
	h.must("kill", id)
	if p := <-refused; p.code() != 143 {
		t.Errorf("the one that goes on: exit %d, %s", p.code(), p.err)
	}
	h.nothingLeft()
}

// TestClaimOfTheDead: a job whose gorun was killed goes on at once.
func TestClaimOfTheDead(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(1_000_000)
	h.must("checkpoint", id)
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, id, "claim-*.json")); len(left) != 1 {
		t.Fatalf("claims of a running job: %q", left)
	}
	p.cmd.Process.Kill()
	p.code()
	h.nothingLeft()
	again := h.start("", "restart", id)
	testenv.Until(t, func() string {
		if said, _ := h.from(sessions[0], "status", id); !strings.Contains(said, ": running") { // a rank is
			return said
		}
		return ""
	})
	if said := again.err.String(); strings.Contains(said, "former gorun") {
		t.Errorf("a dead gorun of this machine was waited for: %s", said)
	}
	h.must("kill", id)
	again.code()
	h.nothingLeft()
	if left, _ := filepath.Glob(filepath.Join(h.ckpt, id, "claim-*")); len(left) != 0 {
		t.Errorf("claims are left: %q", left)
	}
}

// TestLatestUnreadable: where the newest snapshot cannot be read for a moment nothing begins.
func TestLatestUnreadable(t *testing.T) {
	h := newHouse(t)
	h.again()
	schemas, err := filepath.Glob(filepath.Join(h.ckpt, "*", "1", "schema.toml"))
	if err != nil || len(schemas) != 1 {
		t.Fatal(schemas, err)
	}
	aside := schemas[0] + ".aside"
	err = os.Rename(schemas[0], aside)
	if err == nil {
		err = os.Symlink("schema.toml", schemas[0]) // ELOOP, for root as well
	}
	if err != nil {
		t.Fatal(err)
	}
	line := []string{"-np", "3", "-cr", "-restart-latest", self(t), asRank, "count", fmt.Sprint(limit)}
	if out, errs, code := h.gorun(line...); code != 75 || out != "" || !strings.Contains(errs, "cannot be read just now") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if err := os.Rename(aside, schemas[0]); err != nil {
		t.Fatal(err)
	}
	if said := h.again(); !strings.Contains(said, goesOn+"1,") {
		t.Errorf("when it can be read again: %s", said)
	}
}

// TestNoRoom: jobs run where no folder for what is temporary can be written, and are found.
func TestNoRoom(t *testing.T) {
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("only root can mount a full /tmp")
	}
	exe, err := os.Open(self(t))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `for d in /tmp /dev/shm /var/tmp /run; do mount -t tmpfs -o ro none $d || exit 99; done; exec /proc/self/fd/3 `+asGorun+` -np 2 echo here`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORUN_REALM=" + t.TempDir()}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{exe}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "here\n") != 2 || !strings.Contains(string(out), "set GORUN_DIR") {
		t.Errorf("%v\n%s", err, out)
	}
}
