package agent

import (
	"os"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/storage/interval"
	"github.com/gorun-mpi/gorun/internal/system/proc"
)

// A process is compared with itself: nothing is known of it before a quiet span was seen in which it ran. One that is not there
// is passed over.
func TestMeter(t *testing.T) {
	var m meter
	pids := []int{1<<22 + 1, os.Getpid()}
	if _, known := m.look(pids, interval.Quiet, time.Second, false); known || len(m.ranks) != 1 {
		t.Fatalf("known %v of %d processes at first", known, len(m.ranks))
	}
	if _, known := m.look(pids, interval.Behind, time.Second, true); known {
		t.Error("it knows what is lost before a quiet span")
	}
	for known := false; !known; {
		start, _ := proc.ReadTimes(os.Getpid())
		for run := time.Duration(0); run < 30*time.Millisecond; {
			now, ok := proc.ReadTimes(os.Getpid())
			if !ok {
				t.Skip("this kernel does not tell how long threads wait")
			}
			run = now.Since(start).Run
		}
		_, known = m.look(pids, interval.Quiet, time.Second, true)
	}
	if lost, known := m.look(pids, interval.Behind, time.Second, true); !known || lost < 0 || lost > time.Second {
		t.Errorf("lost %v, known %v", lost, known)
	}
	if _, known := m.look(pids[:1], interval.Behind, time.Second, true); known || len(m.ranks) != 0 {
		t.Errorf("a process that has ended is still known: %d", len(m.ranks))
	}
}
