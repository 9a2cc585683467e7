package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A job that begins again from its start says what comes twice: lines of output, and what is appended to files.
func TestSaysWhatComesTwice(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	p := h.start("", "-np", "1", "-restarts", "1", "sh", "-c", `echo one; echo two; echo x >> log; mkdir begun && kill -9 $$; exit 0`)
	if code := p.code(); code != 0 || p.out.String() != "one\ntwo\none\ntwo\n" {
		t.Errorf("exit %d, %q", code, p.out)
	}
	for _, want := range []string{"2 lines of output printed since then", "warning: files in " + dir + " were written to after the job began, and stay as they are: ", "log"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("no %q in\n%s", want, p.err)
		}
	}
	h.nothingLeft()
}
