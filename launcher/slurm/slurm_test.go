package slurm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/launcher"
)

// TestMain makes this test a gorun: as a keeper it says so and tells what it was given.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launcher.KeeperVerb {
		fmt.Println("\n" + launcher.KeeperReady)
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		self, err := launcher.Self()
		fmt.Fprintf(os.Stderr, "ticket %q, path %s, tasks %s %v", line, self.Path, os.Getenv("SLURM_CPUS_PER_TASK"), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake makes a script that is srun: it has the options before /bin/sh in $options and, as $@, the
// command. Its home is a folder of its own.
func fake(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text := "#!/bin/sh\nexport HOME=" + dir + "\nunset XDG_CACHE_HOME\n" +
		"while [ \"$1\" != /bin/sh ]; do options=\"$options $1\"; shift; done\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// start starts a keeper on node n2 and returns what it said.
func start(t *testing.T) (string, error) {
	t.Helper()
	p, err := Manager{}.Start(t.Context(), launcher.Node{Name: "n2"}, []byte("the ticket"))
	if err != nil {
		return "", err
	}
	return p.Wait().Error(), nil
}

func TestStart(t *testing.T) {
	dir := fake(t, `echo "$options" >$HOME/options; echo "$*" >$HOME/args; env >$HOME/env; echo Welcome; exec "$@"`)
	t.Setenv("SLURM_CPUS_PER_TASK", "4")
	said, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, `ticket "the ticket\n", path /`) || !strings.Contains(said, "tasks  <nil>") {
		t.Errorf("the keeper says %q", said)
	}
	for _, f := range []string{"args", "env", "options"} {
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "the ticket") {
			t.Errorf("the ticket is in the %s", f)
		}
		if f == "options" && !strings.Contains(string(text), "--overlap -N1 -n1 -w n2 --mpi=none") {
			t.Errorf("options are %s", text)
		}
	}
}

// TestCopied: a gorun that is not on a node is copied there.
func TestCopied(t *testing.T) {
	self, err := launcher.Self()
	if err != nil {
		t.Fatal(err)
	}
	dir := fake(t, `echo step >>$HOME/steps; [ "$5" = `+self.Path+` ] && set -- "$1" "$2" "$3" "$4" /nowhere/gorun "$6"; exec "$@"`)
	said, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, ".cache/gorun/bin", self.Digest, "gorun"); !strings.Contains(said, "path "+want) {
		t.Errorf("the keeper says %q, not that it is %s", said, want)
	}
	if steps, err := os.ReadFile(filepath.Join(dir, "steps")); err != nil || strings.Count(string(steps), "step") != 3 {
		t.Errorf("steps: %q, %v", steps, err)
	}
}

func TestRefused(t *testing.T) {
	for script, want := range map[string]string{
		`echo 'srun: error: Unable to confirm allocation for job 9: Invalid job id specified' >&2; exit 1`:               "the allocation is over",
		`echo 'srun: error: Unable to create step for job 9: Requested node configuration is not available' >&2; exit 1`: "does not have that node",
		`echo 'srun: error: Node failure on n2' >&2; exit 1`:                                                             "it has failed",
		`echo 'srun: error: Unable to create step for job 9: Job/step already completing or completed' >&2; exit 1`:      "time limit",
		`echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1`:                 "scontrol ping",
		`echo; echo 'gorun keeper: missing: Linux riscv128'`:                                                             "riscv128",
		`echo full disk >&2; case "$3" in *umask*) exit 1;; *) echo; echo "gorun keeper: missing: $(uname -sm)";; esac`:  "full disk",
		`echo 'what is this' >&2; exit 3`: "srun -w n2: exit status 3; it said: what is this",
	} {
		fake(t, script)
		if said, err := start(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", script, said, err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := start(t); err == nil || !strings.Contains(err.Error(), "not in PATH") {
		t.Errorf("without srun: %v", err)
	}
}

// TestWaiting: a step that Slurm does not begin ends with the start's time, and says why.
func TestWaiting(t *testing.T) {
	dir := fake(t, `echo 'srun: Job 9 step creation temporarily disabled, retrying (Requested nodes are busy)' >&2; : >$HOME/said; exec sleep 1000`)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "said")); err == nil {
				cancel(why)
			}
			<-time.After(time.Millisecond)
		}
	}()
	_, err := Manager{}.Start(ctx, launcher.Node{Name: "n2"}, nil)
	if err == nil || !strings.Contains(err.Error(), "without --overlap") {
		t.Errorf("it says %v", err)
	}
	cancel(nil)
}

func TestNames(t *testing.T) {
	dir := fake(t, `touch $HOME/ran`)
	for _, n := range []launcher.Node{{Name: "--uid=0"}, {}, {Name: "n1,n2"}, {Name: "n[1-2]"}, {Name: "n1", User: "me"}} {
		if _, err := (Manager{}).Start(t.Context(), n, nil); err == nil {
			t.Errorf("%+v was taken", n)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("srun was run")
	}
}
