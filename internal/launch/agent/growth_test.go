package agent

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
	g = &growth{r: r, copy: pids[1], limit: 1, quit: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	inState(t, pids[0], 'T')
	g.end()
	inState(t, pids[0], 'S')
	if g.note() == "" {
		t.Error("it is not told")
	}
}

// Less is free where a group above has a limit, and the cache counts as free.
func TestCgroups(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("memory.max", "max\n")
	put("a/memory.max", "1000\n")
	put("a/memory.current", "900\n")
	put("a/memory.stat", "anon 100\ninactive_file 300\n")
	put("a/b/memory.max", "500\n")
	put("a/b/memory.current", "0\n")
	for group, want := range map[string]uint64{"/": math.MaxUint64, "/a": 400, "/a/b": 400, "/a/b/c": 400, "/x": math.MaxUint64} {
		if got := cgroupTwo.free(root, group); got != want {
			t.Errorf("%s: %d free, want %d", group, got, want)
		}
	}
	if n := freeMemory(); n < 1<<20 {
		t.Errorf("%d bytes are free here", n)
	}
}
