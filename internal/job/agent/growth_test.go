package agent

import (
	"os"
	"os/exec"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A rank whose copy grows beyond its limit stands still until the copy is gone.
func TestGrowth(t *testing.T) {
	var pids [2]int
	for i := range pids {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		pids[i] = cmd.Process.Pid
	}
	if n := unshared(os.Getpid()); n < 1<<20 {
		t.Errorf("this process has %d bytes of its own", n)
	}
	r := &rankProc{pid: pids[0]}
	g := watchGrowth(r, pids[1], 1<<30)
	g.end()
	if g.note() != "" {
		t.Errorf("without growth: %s", g.note())
	}
	// The rank sleeps, so it is given no pages, and nobody looks at the copy: here it is a process that would have too many.
	const limit = 1 << 20
	st, _ := procfs.ReadStat(r.pid)
	g = &growth{r: r, copy: os.Getpid(), limit: limit, given: st.Faults}
	if g.exceeds() || g.seen != 0 {
		t.Errorf("looked at %d bytes although the rank was given nothing", g.seen)
	}
	if g.given -= limit/uint64(os.Getpagesize()) + 1; !g.exceeds() || g.seen <= limit {
		t.Errorf("not looked at when it was: %d bytes", g.seen)
	}
	g = &growth{r: r, copy: pids[1], limit: 1, quit: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	inState(t, pids[0], 'T')
	g.end()
	inState(t, pids[0], 'S')
	if g.note() == "" {
		t.Error("it is not told")
	}
}
