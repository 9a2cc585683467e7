package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// noted is a back-end that notes what the program is called for.
type noted struct {
	Backend
	log []string
}

func (b *noted) OnCheckpoint() error {
	b.log = append(b.log, "checkpoint")
	return errors.New("in vain")
}

func (b *noted) After() error {
	b.log = append(b.log, "after")
	return nil
}

func (b *noted) Capture(oob.CaptureConfig, []engine.Saved, uint64) (Snapshot, error) {
	return nil, errors.New("there is no image here")
}

// A rank that was told where an attempt stops calls its functions there, also if the attempt is over by then, and also if another
// has begun: ranks that were there may wait for its part in theirs.
func TestOwedFunctions(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(p *points) // after the first Point
		want string          // Points at which the functions are called
	}{
		{"nobody has told", func(p *points) { p.arm(origin{attempt: 1}); p.disarm() }, ""},
		{"given up", func(p *points) { p.arm(origin{attempt: 1}); p.runTo(3); p.disarm() }, "3"},
		{"twice", func(p *points) {
			p.arm(origin{attempt: 1})
			p.runTo(3)
			p.disarm()
			p.arm(origin{attempt: 2})
			p.runTo(5)
			p.disarm()
		}, "3 5"},
		{"another is on its way", func(p *points) {
			p.arm(origin{attempt: 1})
			p.runTo(2)
			p.disarm()
			p.arm(origin{attempt: 2})
			p.runTo(100)
		}, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, every := range []uint64{0, 4} {
				j, b := &Job{}, &noted{}
				j.backend.b = b
				j.points.init()
				var at []string
				for n := 1; n <= 7; n++ {
					b.log = nil
					if every != 0 && n == 4 {
						j.points.pass(4)
						j.points.due = 4 // as if the head had let it go
					}
					if err := j.Point(); err != nil {
						t.Fatal(err)
					}
					switch log := strings.Join(b.log, " "); log {
					case "":
					case "checkpoint after":
						at = append(at, fmt.Sprint(n))
					default:
						t.Errorf("Point %d: %s", n, log)
					}
					if n == 1 {
						c.tell(&j.points)
						j.points.mu.Lock()
						j.points.every = every
						j.points.mu.Unlock()
					}
				}
				if got := strings.Join(at, " "); got != c.want {
					t.Errorf("every %d: called at Points %q, want %q", every, got, c.want)
				}
			}
		})
	}
}
