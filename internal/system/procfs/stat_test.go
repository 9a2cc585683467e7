package procfs

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// text makes the file of a process. The keys are numbers of fields, as in proc(5).
func text(name string, fields map[int]string) []byte {
	f := slices.Repeat([]string{"0"}, 50)
	f[0] = "S"
	for n, v := range fields {
		f[n-3] = v
	}
	return []byte("17 (" + name + ") " + strings.Join(f, " ") + "\n")
}

func TestParseStat(t *testing.T) {
	s, err := ParseStat(text("a) Z (b", map[int]string{4: "5", 7: "34816", 10: "1", 15: "25", 22: "4711", 28: "99", 38: "-1", 52: "256"}))
	want := Stat{Comm: "a) Z (b", State: 'S', PPID: 5, TTY: 34816, Faults: 1, System: 250 * time.Millisecond, Start: 4711, Sends: -1, Exit: 256, Layout: Layout{StartStack: 99}}
	if err != nil || s != want {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	for _, bad := range []string{"", "x", "17 (a", "17 a) S 5", "17 (a) S 5", string(text("a", map[int]string{3: "SS"})), string(text("a", map[int]string{22: "x"})), string(text("a", map[int]string{38: "x"}))} {
		if _, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
}

// A killed thread that has not run since looks as it did, except for the signal.
func TestEnding(t *testing.T) {
	stat := func(state rune, flags, pending int) string {
		return string(text("a b", map[int]string{3: string(state), 9: strconv.Itoa(flags), 31: strconv.Itoa(pending)}))
	}
	for text, want := range map[string]bool{
		stat('S', 0, 0): false, stat('S', 0, 1<<9): false, stat('S', 0, 1<<8): true, stat('R', 4, 0): true, stat('Z', 0, 0): true,
	} {
		if s, err := ParseStat([]byte(text)); err != nil || s.Ending() != want {
			t.Errorf("%q: %v, %v", text, s.Ending(), err)
		}
	}
}

func TestReadStat(t *testing.T) {
	if s, ok := ReadStat(os.Getpid()); !ok || s.PPID != os.Getppid() || s.Ended() || s.Layout.StartCode == 0 {
		t.Errorf("own process: %+v, %v", s, ok)
	}
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	testenv.Until(t, func() string {
		if s, ok := ReadStat(pid); !ok || !s.Ended() {
			return "a child that nobody has waited for: " + string(s.State)
		}
		return ""
	})
	child.Wait()
	if s, ok := ReadStat(pid); ok {
		t.Errorf("a child that is gone: %+v", s)
	}
}

func FuzzStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Fuzz(func(t *testing.T, p []byte) { ParseStat(p) })
}
