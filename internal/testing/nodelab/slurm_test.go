package nodelab

import (
	"strings"
	"testing"
)

// TestSlurm runs a job step on all nodes, cuts one off, and has it back.
func TestSlurm(t *testing.T) {
	lab := Up(t, 2)
	lab.Slurm("SLURMD_TIMEOUT=10")
	both := func() {
		t.Helper()
		got := strings.Fields(lab.Exec("n1", "srun", "-N2", "-n2", "hostname"))
		if len(got) != 2 || got[0] == got[1] || !strings.Contains("n1 n2", got[0]) || !strings.Contains("n1 n2", got[1]) {
			t.Errorf("srun ran on %q", got)
		}
	}
	both()
	lab.Kill("n2")
	lab.SlurmRepair("n2")
	both()
}
