package head

import (
	"errors"
	"strings"
	"testing"
)

// A failure of periodic checkpoints is told once, when it changes, and when it is
// over.
func TestTrouble(t *testing.T) {
	full, denied := "rank 3: write /s/7/rank-00003.img: no space left", "no folder: permission denied"
	var tr trouble
	for i, step := range []struct{ err, says string }{
		{"", ""},
		{full, full},
		{"rank 11: write /s/8/rank-00011.img: no space left", ""},
		{denied, denied},
		{full, ""},
		{denied, ""},
		{"", "works again"},
		{"", ""},
		{full, full},
		{"rank 1: write image /s/9/rank-00001.img: section \"7f2900\": write /s/9/rank-00001.img.4e87b57c.part: no space left", ""},
		{"rank 0: write image /s/10/rank-00000.img: write /s/10/rank-00000.img.a55fb563.part: no space left", ""},
		{"", "works again"},
		{"rank 0 waits for 3.9s in a call", "rank 0 waits"},
		{"rank 1 waits for 1m2s in a call", ""},
	} {
		var err error
		if step.err != "" {
			err = errors.New(step.err)
		}
		got := tr.news(err)
		if (got == "") != (step.says == "") || !strings.Contains(got, step.says) {
			t.Errorf("step %d, %q: %q", i, step.err, got)
		}
	}
}
