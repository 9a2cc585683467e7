package launcher

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// backendSelf is the back-end whose images a rank reads itself.
const backendSelf = "self"

// oobFD is the number of a rank's stream to its agent, there.
const oobFD = 3

// restore makes a rank from its image and, when all ranks of the job are made,
// lets it go: before, it takes no step and none of its files is changed. It is
// told of its new life by a second Start, behind whatever it had not read of its
// old one.
func (a *agent) restore(r *rankProc, p *pipes) error {
	start := a.order.Start[r.rank]
	start.Host = a.order.Host
	tracer, err := a.images.tracer(start.Backend)
	if err != nil {
		return err
	}
	r.restored = true
	hold := slices.Contains(a.order.Held, r.rank)
	back, err := tracer.Restore(RestoreOptions{
		Rank: r.rank, Image: string(start.Image), Base: func(seq int) string { return string(a.order.Chain[r.rank][seq]) },
		Program: string(a.order.Program), Stdin: p.stdin, Stdout: p.theirs[1], Stderr: p.theirs[2], OOB: p.theirs[0],
		Files: a.order.Files, Tag: incarnationID(start.Incarnation), Hold: hold,
	})
	if err != nil {
		return err
	}
	a.head.send(oob.Msg{Kind: oob.Spawn, From: int32(r.rank), To: oob.Head, A: spawnWaits, B: uint64(back.PID), Data: []byte(back.Warn)})
	if err := a.whenAll(back); err != nil {
		return err
	}
	r.pid, r.note, r.buried = back.PID, back.Note, back.Close
	if err := writeAll(r.socket, back.Unread); err != nil {
		syscall.Kill(r.pid, syscall.SIGKILL)
		wait4(r.pid)
		return err
	}
	r.down.send(oob.Msg{Kind: oob.Start, From: oob.Head, To: int32(r.rank), Incarnation: start.Incarnation, Data: mustJSON(start)})
	if hold {
		r.held = spawnHeld
		go a.watchHeld(r)
	}
	return nil
}

// whenAll lets a rank go when all are restored, or ends it if the job ends or
// somebody kills it before.
func (a *agent) whenAll(back *Restored) error {
	t := time.NewTicker(standPoll)
	defer t.Stop()
	for {
		select {
		case <-a.restored:
			return back.Go()
		case <-a.quit:
			return errors.Join(errEnded, back.End())
		case <-t.C:
			// Its threads are traced, so that only its state tells.
			if st, ok := readStat(back.PID); !ok || st.state == 'Z' {
				return errors.Join(errKilled, back.End())
			}
		}
	}
}

var (
	errEnded  = errors.New("the job was ended before all ranks were restored")
	errKilled = errors.New("it was killed before all ranks were restored")
)

// A of Spawn.
const (
	spawnRuns  = iota // the rank runs
	spawnHeld         // it waits for a debugger
	spawnFree         // it waits no longer
	spawnWaits        // it is restored, and waits for all others to be
)

// watchHeld tells the head when a held rank goes on: no limit of time counts
// before.
func (a *agent) watchHeld(r *rankProc) {
	for range time.Tick(heldPoll) {
		r.mu.Lock()
		stopped := !r.reaped && held(r.pid)
		r.mu.Unlock()
		if !stopped {
			a.head.send(oob.Msg{Kind: oob.Spawn, From: int32(r.rank), To: oob.Head, A: spawnFree, B: uint64(r.pid)})
			return
		}
	}
}

// heldPoll is how often a held rank is looked at. Nothing announces that a
// process goes on to anybody but its parent, and not there if it is traced.
const heldPoll = 200 * time.Millisecond

// held reports whether a process is stopped, or a debugger has it.
func held(pid int) bool {
	st, ok := readStat(pid)
	return ok && (st.state == 'T' || st.state == 't' || procValue(fmt.Sprintf("/proc/%d/status", pid), "TracerPid:") != 0)
}

// writeAll writes to a socket that has room.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("to the rank's socket: %w", err)
		}
		b = b[n:]
	}
	return nil
}
