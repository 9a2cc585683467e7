package capture

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestEndingThreads: threads that are just ending stand against nothing.
func TestEndingThreads(t *testing.T) {
	v := newVictim(t, testAgent(t), "births", "births", "births")
	for i := range 3000 {
		if err := v.target.checkIdentity(); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	v.Works()
}

// TestHeadless: a process whose first thread has ended lives, and cannot be imaged.
func TestHeadless(t *testing.T) {
	v := newVictim(t, testAgent(t), "headless")
	for b := (trace.Backoff{}); !trace.IsZombie(v.PID); {
		if !b.Sleep(10 * time.Second) {
			t.Fatal("its first thread lives")
		}
	}
	for range 2 {
		if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, refusal.ErrRefused) || !errors.Is(err, trace.ErrLeaderEnded) {
			t.Error(err)
		}
		v.Works()
	}
	unix.Kill(v.PID, unix.SIGKILL)
	if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, whole.ErrDied) {
		t.Error(err)
	}
}
