package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A restarted program that does not fit its image fails although it looks at no
// error; one with a new variable goes on, and the user is told.
func TestRestartOfAnotherProgram(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "id")
	p := h.start("", "-np", "2", "-cr=self", "-jobid-file", file, self(t), asRank, "careless", fmt.Sprint(limit), "sum")
	id := h.jobID(p, file)
	h.must("checkpoint", "-stop", id)
	p.code()
	for _, try := range []struct {
		args []string
		ok   bool
		says string
	}{
		{[]string{"1", "sum"}, true, ""},
		{[]string{"1", "sum", "fresh"}, true, `rank 1: not in the image, and left as the program has set them: ["fresh"]`},
		{[]string{"1", "total"}, false, `variable "sum"; it has registered what the image does not hold: ["total"]`},
		{[]string{fmt.Sprint(limit), "total"}, false, `variable "sum"; it has registered what the image does not hold: ["total"]`},
		{[]string{"1"}, false, `variable "sum"`},
	} {
		_, errs, code := h.gorun(append([]string{"restart", id, "--", self(t), asRank, "careless"}, try.args...)...)
		if (code == 0) != try.ok || !strings.Contains(errs, try.says) {
			t.Errorf("%q: exit %d, %s", try.args, code, errs)
		}
		for line := range strings.Lines(errs) {
			if strings.Count(line, "rank 0: ")+strings.Count(line, "rank 1: ") > 1 {
				t.Errorf("%q: the rank is told more than once: %s", try.args, line)
			}
		}
	}
	h.nothingLeft()
}
