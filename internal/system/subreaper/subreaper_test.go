package subreaper

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Processes that a killed child leaves come here and are ended, in its group or out
// of it; other children are not.
func TestBury(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	stays := exec.Command("sleep", "1000")
	leaves := exec.Command("sh", "-c", "sleep 1000 & echo $!; setsid sh -c 'sleep 1000 & echo $!; echo $$; wait' & wait")
	out, err := leaves.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{stays, leaves} {
		if err := Start(cmd); err != nil {
			t.Fatal(err)
		}
	}
	var left []int
	for s := bufio.NewScanner(out); len(left) < 3 && s.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(s.Text()))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, pid)
	}
	leaves.Process.Kill()
	Wait(leaves)
	Bury()
	for _, pid := range left {
		if _, there := procfs.ReadStat(pid); there {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := stays.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("an own child has ended, too: %v", err)
	}
	stays.Process.Kill()
	if err := fmt.Sprint(Wait(stays)); !strings.Contains(err, "killed") {
		t.Error(err)
	}
}
