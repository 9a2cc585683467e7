package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// oobFD is a rank's descriptor of its stream to the agent.
const oobFD = 3

// restore makes a rank from its image, and lets it go when all ranks of the job are made. Before
// that the rank takes no step and none of its files is changed. A second Start announces its new
// life. It comes behind the bytes that the rank had not read in its old life.
func (a *agent) restore(r *rankProc, p *pipes) error {
	start := a.startOf(r.rank)
	start.Host = a.order.Host
	phases := &phases{last: time.Now()}
	tracer, err := a.images.tracer(start.Backend)
	if err == nil {
		err = a.bring(r)
	}
	if err != nil {
		return err
	}
	phases.end("reading")
	start.Image = rawstring.String(r.image)
	r.restored = true
	hold := slices.Contains(a.order.Held, r.rank)
	_, _, attends := program.Attended("", a.order.Args[min(1, len(a.order.Args)):])
	back, err := tracer.Restore(whole.RestoreOptions{
		Rank: r.rank, Image: r.images[r.first], Base: func(seq int) image.Source { return r.images[seq] },
		Program: string(a.order.Program), Stdin: p.stdin, Stdout: p.theirs[1], Stderr: p.theirs[2], OOB: p.theirs[0],
		Files: a.order.Files, Shared: whole.SharedBy(a.order.Shared, r.rank), Tag: wire.ID(start.Incarnation), Hold: hold, Attends: attends, Params: start.Params,
	})
	if err != nil {
		return err
	}
	if err := a.bindRestored(r, back.PID); err != nil {
		return errors.Join(err, back.End())
	}
	phases.end("host")
	if err := r.devices.bringDevices(back.PID, r.images[r.first]); err != nil {
		r.devices.end()
		return errors.Join(err, back.End())
	}
	phases.end("devices")
	a.head.Send(oob.Msg{Kind: oob.Spawn, From: int32(r.rank), To: oob.Head, A: oob.SpawnWaits, B: uint64(back.PID), Data: []byte(back.Warn)})
	err = a.whenAll(r.rank, back)
	for _, path := range back.Tails {
		a.head.Send(oob.Msg{Kind: oob.Tail, From: int32(r.rank), To: oob.Head, Data: []byte(path)})
	}
	if err != nil {
		r.devices.end()
		return err
	}
	r.pid, r.note, r.buried = back.PID, back.Note, back.Close
	if r.devices.any() { // without devices the head's own message says enough
		r.note = strings.TrimPrefix(r.note+"; "+phases.String(), "; ")
	}
	if err := writeAll(r.socket, back.Unread); err != nil {
		syscall.Kill(r.pid, syscall.SIGKILL)
		proc.Wait(r.pid)
		return err
	}
	r.down.Send(oob.Msg{Kind: oob.Start, From: oob.Head, To: int32(r.rank), Incarnation: start.Incarnation, Data: wire.JSON(start)})
	r.devices.wake()
	if hold {
		r.held, r.stopped = oob.SpawnHeld, cmp.Or(back.Held, back.PID)
		go a.watchHeld(r)
	}
	return nil
}

// phases are those of a restart, and how long each took.
type phases struct {
	last time.Time
	said []string
}

func (p *phases) end(name string) {
	now := time.Now()
	p.said = append(p.said, fmt.Sprintf("%s %v", name, now.Sub(p.last).Round(time.Millisecond)))
	p.last = now
}

// String is like "restored: reading 3ms, host 52ms, devices 410ms; computing".
func (p *phases) String() string { return "restored: " + strings.Join(p.said, ", ") + "; computing" }

// whenAll lets a rank go when all are restored, and files that they share are cut. It ends the rank
// if the job ends or the rank is killed before that.
func (a *agent) whenAll(rank int, back *whole.Restored) error {
	t := time.NewTicker(standPoll)
	defer t.Stop()
	cut := a.cut
	for {
		select {
		case <-cut:
			cut = nil
			if back.Cut != nil {
				if err := back.Cut(); err != nil {
					return errors.Join(err, back.End())
				}
			}
			a.head.Send(oob.Msg{Kind: oob.Cut, From: int32(rank), To: oob.Head})
		case <-a.restored:
			return back.Go()
		case <-a.quit:
			return errors.Join(errEnded, back.End())
		case <-t.C:
			// Its threads are traced, so that only its state tells.
			if st, ok := procfs.ReadStat(back.PID); !ok || st.Ended() {
				return errors.Join(errKilled, back.End())
			}
		}
	}
}

var (
	errEnded  = errors.New("the job was ended before all ranks were restored")
	errKilled = errors.New("it was killed before all ranks were restored")
)

// watchHeld tells the head when a held rank goes on: no limit of time counts
// before.
func (a *agent) watchHeld(r *rankProc) {
	for range time.Tick(heldPoll) {
		r.mu.Lock()
		stopped := !r.reaped && held(r.stopped)
		r.mu.Unlock()
		if !stopped {
			a.head.Send(oob.Msg{Kind: oob.Spawn, From: int32(r.rank), To: oob.Head, A: oob.SpawnFree, B: uint64(r.pid)})
			return
		}
	}
}

// heldPoll is how often a held rank is looked at. Only a process's parent is told that it goes on,
// and not even that while it is traced.
const heldPoll = 200 * time.Millisecond

// held reports whether a process is stopped, or a debugger has it.
func held(pid int) bool {
	st, ok := procfs.ReadStat(pid)
	return ok && (st.State == 'T' || st.State == 't' || proc.Value(fmt.Sprintf("/proc/%d/status", pid), "TracerPid:") != 0)
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
