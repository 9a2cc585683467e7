package head

import (
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// Every outcome with and without lost output: only one that is else good has another status.
func TestOutcome(t *testing.T) {
	lost := errors.New("no space left on device")
	for _, c := range []struct {
		name     string
		o        outcome
		status   int
		withLost int
		texts    int // without lost output
	}{
		{"well", outcome{verdict: verdict{Rank: -1}}, 0, 1, 0},
		{"a rank's own", outcome{verdict: verdict{Code: 3, Rank: 1, Died: true, Text: "rank 1 exited with status 3"}}, 3, 3, 1},
		{"a signal", outcome{verdict: verdict{Code: 137, Died: true, Text: "rank 0 was killed"}}, 137, 137, 1},
		{"Abort with 0", outcome{verdict: verdict{Text: "rank 0 aborted the job with code 0"}}, 0, 1, 1},
		{"checkpointed and stopped", outcome{verdict: verdict{Code: 75, Rank: -1, Last: 4, Text: "goes on with"}}, 75, 75, 1},
		{"the same, with -ckpt-exit-status 0", outcome{verdict: verdict{Rank: -1, Last: 4, Text: "goes on with"}}, 0, 0, 1},
		{"-timeout", outcome{verdict: verdict{Code: spec.ExitTimeout, Rank: -1, Text: "ran out"}}, 124, 124, 1},
		{"never began", outcome{refused: spec.WithStatus(spec.ExitUsage, errors.New("no"))}, 2, 2, 1},
		{"the same, without a status of its own", outcome{refused: errors.New("no")}, 1, 1, 1},
	} {
		for _, o := range []error{nil, lost} {
			c.o.lost = o
			want, texts := c.status, c.texts
			if o != nil {
				want, texts = c.withLost, c.texts+1
			}
			if got := c.o.status(); got != want {
				t.Errorf("%s, lost %v: status %d, want %d", c.name, o, got, want)
			}
			all := c.o.texts()
			if len(all) != texts {
				t.Errorf("%s, lost %v: %d texts, want %d: %v", c.name, o, len(all), texts, all)
			}
			if o != nil && !errors.Is(all[0], lost) {
				t.Errorf("%s: lost output is told as %v", c.name, all)
			}
			// The line to copy stands last, and what is wrong with checkpoints before the verdict.
			more := c.o
			more.goesOn, more.failing = "gorun restart x", &control.Failing{Attempts: 2, Why: "no disk"}
			if now := more.texts(); len(now) != texts+2 || now[len(now)-1].Error() != "go on with: gorun restart x" || more.status() != want {
				t.Errorf("%s: %v, status %d", c.name, now, more.status())
			}
		}
	}
}
