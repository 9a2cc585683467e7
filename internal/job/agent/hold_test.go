package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// standing is a back-end that stops a rank instead of copying it, as fakeImager
// does in everything else.
type standing struct{ *fakeImager }

func (s standing) Attach(pid, rank, oob int, _ [3]int) (whole.Target, error) {
	return &standingTarget{fakeTarget{s.fakeImager, pid}}, nil
}

type standingTarget struct{ fakeTarget }

func (t *standingTarget) Capture(o whole.CaptureOptions) (whole.Copy, error) {
	t.f.asked <- o
	if !o.NoFork {
		return nil, errors.New("asked for a copy")
	}
	syscall.Kill(t.pid, syscall.SIGSTOP)
	return &standingCopy{fakeCopy{f: t.f, pid: t.pid, opt: o}}, nil
}

type standingCopy struct{ fakeCopy }

func (c *standingCopy) PID() int     { return 0 }
func (c *standingCopy) Note() string { return "it stood still" }

func (c *standingCopy) Release() error {
	if c.ends++; c.ends > 1 {
		return errors.New("released twice")
	}
	syscall.Kill(c.pid, syscall.SIGCONT)
	return nil
}

// heldBench captures the only rank of a bench as the last checkpoint of a job does, up
// to the moment when its image is written.
func heldBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchOf(t, 1, "sleep 1000", func(a *agent, f *fakeImager) {
		a.images.tracers["fake"] = standing{f}
		a.images.memory.free = func() uint64 { return 1 } // no matter
	}, nil)
	b.until(oob.Spawn)
	cfg := capture(1, 0)
	cfg.Hold = true
	b.order(oob.Capture, 1, 0, cfg)
	if o := <-b.f.asked; o.Seq != 1 || o.Base != 0 || o.Track || !o.NoFork {
		t.Fatalf("asked for %+v", o)
	}
	b.until(oob.Captured)
	b.f.write <- nil
	var info oob.ImageInfo
	if err := json.Unmarshal(b.until(oob.Written).Data, &info); err != nil {
		t.Fatal(err)
	}
	if info.Note != "" || info.Size != 4242 {
		t.Errorf("%+v", info)
	}
	b.order(oob.Ask, 1, 0, nil)
	b.until(oob.Where) // the agent has come to it
	inState(t, b.pids[0], 'T')
	return b
}

// inState waits until a process is in a state, as /proc shows it.
func inState(t *testing.T, pid int, state byte) {
	t.Helper()
	testenv.Until(t, func() string {
		st, ok := procfs.ReadStat(pid)
		if ok && st.State == state {
			return ""
		}
		return fmt.Sprintf("process %d is in state %c, %v", pid, st.State, ok)
	})
}

// A rank whose job ends with the checkpoint stands until it is killed, also when
// the snapshot is committed.
func TestHeldUntilTheEnd(t *testing.T) {
	b := heldBench(t)
	b.order(oob.Commit, 1, 0, 1)
	b.order(oob.Ping, 0, 0, nil)
	b.until(oob.Ping)
	inState(t, b.pids[0], 'T')
	b.send(oob.Msg{Kind: oob.KillAll, From: oob.Head, To: oob.AgentAddr(0)})
	if m := b.until(oob.Exit); syscall.WaitStatus(m.A).Signal() != syscall.SIGKILL {
		t.Errorf("%+v", m)
	}
	b.over()
}

// It goes on if there is no snapshot after all, and can be imaged again.
func TestHeldAndReverted(t *testing.T) {
	b := heldBench(t)
	b.order(oob.Revert, 1, 0, nil)
	inState(t, b.pids[0], 'S')
	cfg := capture(2, 0)
	cfg.Hold = true
	b.order(oob.Capture, 2, 0, cfg)
	<-b.f.asked
	b.until(oob.Captured)
	inState(t, b.pids[0], 'T')
	b.f.write <- errors.New("disk full")
	b.until(oob.Failed)
	inState(t, b.pids[0], 'S')
	b.over()
}

// It is told if somebody else kills it.
func TestHeldAndKilled(t *testing.T) {
	b := heldBench(t)
	syscall.Kill(b.pids[0], syscall.SIGKILL)
	b.until(oob.Exit)
	b.over()
}

// An agent answers for a rank that was stopped.
func TestStoppedRank(t *testing.T) {
	b := newBench(t, 1, "sleep 1000", nil)
	b.until(oob.Spawn)
	syscall.Kill(b.pids[0], syscall.SIGSTOP)
	inState(t, b.pids[0], 'T')
	b.order(oob.Ask, 3, 0, nil)
	if m := b.until(oob.Where); m.From != 0 || m.Attempt != 3 || !strings.Contains(string(m.Data), "kill -CONT") {
		t.Errorf("%+v", m)
	}
	b.over()
}
