package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Arguments, variables, the working folder and the program's name are bytes, on the
// way to the ranks, in the schema, and where they are listed.
func TestBytes(t *testing.T) {
	h := newHouse(t)
	dir := filepath.Join(t.TempDir(), "d\xe9")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "p\xff")
	copyFile(t, self(t), program)
	t.Chdir(dir)
	want := fmt.Sprintf("%q %q %q <nil>\n", []string{fmt.Sprint(limit), "x\xe9y", "a\nb\x1b[m"}, "v\xfe", "d\xe9")
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "1", "-cr=self", "-env", "GORUN_TEST_KEPT=v\xfe", "-jobid-file", file,
		"./p\xff", asRank, "bytes", fmt.Sprint(limit), "x\xe9y", "a\nb\x1b[m")
	p.out.wait(t, want, 1)
	p.out.wait(t, "begins at", 1) // has registered
	id := h.jobID(p, file)
	shown := `"p\xff" __rank bytes ` + fmt.Sprint(limit) + ` "x\xe9y" "a\nb\x1b[m"`
	if out := h.must("ps"); strings.Count(out, "\n") != 2 || !strings.Contains(out, shown+"\n") {
		t.Errorf("ps: %q", out)
	}
	if out := h.must("status", id); !strings.Contains(out, shown+"\n") {
		t.Errorf("status: %q", out)
	}
	h.must("checkpoint", "-stop", id)
	if out := h.must("snapshots"); strings.Count(out, "\n") != 2 || !strings.Contains(out, shown+"\n") {
		t.Errorf("snapshots: %q", out)
	}
	t.Chdir("/") // the snapshot knows the folder
	p = h.start("", "restart", id)
	p.out.wait(t, want, 1)
	h.must("kill", "-9", id)
	p.code()
	h.nothingLeft()
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "-x=1": "-x=1", "two words": "two words", "zoë": "zoë",
		"a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "x\xe9": `"x\xe9"`, "\u202e": `"\u202e"`,
	} {
		if got := printable(s); got != want {
			t.Errorf("%q is shown as %s, want %s", s, got, want)
		}
	}
}
