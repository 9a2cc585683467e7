package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/launcher"
	"github.com/gorun-mpi/gorun/launcher/internal/clienttest"
)

func TestMain(m *testing.M) { clienttest.Main(m) }

// fake puts a script in the place of srun. It has the options before /bin/sh in $options, and the command as $@.
func fake(t *testing.T) func(script string) (launcher.Manager, string) {
	before := os.Getenv("PATH")
	return func(script string) (launcher.Manager, string) {
		dir := clienttest.Fake(t, "srun", "/bin/sh", script)
		t.Setenv("PATH", dir+":"+before)
		return Manager{}, dir
	}
}

func TestStart(t *testing.T) {
	t.Setenv("SLURM_CPUS_PER_TASK", "4")
	dir := clienttest.CheckStart(t, fake(t), `exec "$@"`, "--overlap -N1 -n1 -w n2 --mpi=none")
	if strings.Contains(clienttest.Read(t, dir, "env"), "SLURM_CPUS_PER_TASK") {
		t.Error("srun is told of the ranks' CPUs")
	}
}

// TestCopied: a gorun that is not on a node is copied there.
func TestCopied(t *testing.T) {
	self, err := launcher.Self()
	if err != nil {
		t.Fatal(err)
	}
	m, dir := fake(t)(`echo step >>$HOME/steps; [ "$5" = ` + self.Path + ` ] && set -- "$1" "$2" "$3" "$4" /nowhere/gorun "$6"; exec "$@"`)
	said, err := clienttest.Start(t, m, "n2")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, ".cache/gorun/bin", self.Digest, "gorun"); !strings.Contains(said, "path "+want) {
		t.Errorf("the keeper says %q, not that it is %s", said, want)
	}
	if steps := clienttest.Read(t, dir, "steps"); strings.Count(steps, "step") != 3 {
		t.Errorf("steps: %q", steps)
	}
}

func TestRefused(t *testing.T) {
	clienttest.CheckRefused(t, fake(t), map[string]string{
		`echo 'srun: error: Unable to confirm allocation for job 9: Invalid job id specified' >&2; exit 1`:               "the allocation is over",
		`echo 'srun: error: Unable to create step for job 9: Requested node configuration is not available' >&2; exit 1`: "does not have that node",
		`echo 'srun: error: Node failure on n2' >&2; exit 1`:                                                             "it has failed",
		`echo 'srun: error: Unable to create step for job 9: Job/step already completing or completed' >&2; exit 1`:      "time limit",
		`echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1`:                 "scontrol ping",
		`echo; echo 'gorun keeper: missing: Linux riscv128'`:                                                             "riscv128",
		`echo full disk >&2; case "$3" in *umask*) exit 1;; *) echo; echo "gorun keeper: missing: $(uname -sm)";; esac`:  "full disk",
		`echo 'what is this' >&2; exit 3`: "srun -w n2: exit status 3; it said: what is this",
	})
	t.Setenv("PATH", t.TempDir())
	if _, err := clienttest.Start(t, Manager{}, "n2"); err == nil || !strings.Contains(err.Error(), "not in PATH") {
		t.Errorf("without srun: %v", err)
	}
}

// TestWaiting: a step that Slurm does not begin ends with the start's time, and says why.
func TestWaiting(t *testing.T) {
	m, dir := fake(t)(`echo 'srun: Job 9 step creation temporarily disabled, retrying (Requested nodes are busy)' >&2; : >$HOME/said; exec sleep 1000`)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	said := filepath.Join(dir, "said")
	if err := unix.Mkfifo(said, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		os.ReadFile(said) // returns when the script has written it
		cancel(why)
	}()
	_, err := m.Start(ctx, launcher.Node{Name: "n2"}, nil)
	if err == nil || !strings.Contains(err.Error(), "without --overlap") {
		t.Errorf("it says %v", err)
	}
	cancel(nil)
}

func TestNames(t *testing.T) {
	clienttest.CheckNames(t, fake(t), launcher.Node{Name: "--uid=0"}, launcher.Node{}, launcher.Node{Name: "n1,n2"}, launcher.Node{Name: "n[1-2]"},
		launcher.Node{Name: "n1", User: "me"})
}
