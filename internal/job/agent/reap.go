package agent

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// An agent has three kinds of children:
//
//   - Ranks. Each has a pidfd; the goroutine that watches it reaps the rank.
//   - Copies of ranks that are being imaged. They belong to the imaging.
//   - What a rank's dead children have left. It is swept when the kernel says that some child has
//     ended.
//
// Nothing here waits for just any child. That would take a traced child's stops, which the tracing
// waits for, as deaths.

// death waits for a child's end and takes nothing: neither its status nor, while it is traced, one
// of its stops.
type death struct{ f *os.File }

// watchDeath begins to watch a child that is not reaped.
func watchDeath(pid int) (*death, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd of process %d (Linux 5.3 has them): %w", pid, err)
	}
	// The runtime's poller waits for a file that does not block. Otherwise each rank would take a
	// thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	return &death{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns when the process and all its threads have ended, and a tracer has let them go.
func (d *death) wait() error {
	defer d.f.Close()
	raw, err := d.f.SyscallConn()
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return n > 0 && err == nil
	})
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	return nil
}

// expect announces a child that is about to be born. Nothing is swept until born is called, because
// the child could not be told from an orphan.
func (a *agent) expect() {
	a.mu.Lock()
	a.unborn++
	a.mu.Unlock()
}

// born ends an expect. register, which may be nil, enters the child where the sweep looks.
func (a *agent) born(register func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if register != nil {
		register()
	}
	if a.unborn--; a.unborn == 0 && a.missed {
		a.sweepLocked()
	}
}

// sweepOrphans reaps orphans as they end, for the life of the process.
func (a *agent) sweepOrphans() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	deathsOnly()
	for range c {
		a.mu.Lock()
		a.sweepLocked()
		a.mu.Unlock()
	}
}

// deathsOnly keeps SIGCHLD from being sent for every stop of a traced child, of
// which there are a hundred while a rank is copied.
func deathsOnly() {
	const noChildStop = 1 // SA_NOCLDSTOP
	var act struct {      // the kernel's struct sigaction
		handler, flags, restorer uintptr
		mask                     uint64
	}
	p := unsafe.Pointer(&act)
	const size = unsafe.Sizeof(act.mask)
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), 0, uintptr(p), size, 0, 0); e == 0 {
		act.flags |= noChildStop
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(p), 0, size, 0, 0)
	}
}

func (a *agent) sweepLocked() {
	a.missed = a.unborn > 0
	if a.missed {
		return
	}
	for _, pid := range proc.Children() {
		if a.pids[pid] != nil || a.copies[pid] {
			continue
		}
		if st, ok := procfs.ReadStat(pid); ok && st.Ended() {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// await waits for a rank's end and buries it.
func (a *agent) await(r *rankProc, d *death) {
	if err := d.wait(); err != nil {
		// A rank that cannot be watched must not go on.
		fmt.Fprintln(os.Stderr, "gorun agent:", err)
		r.kill(syscall.SIGKILL)
	}
	a.bury(r)
	a.mu.Lock()
	delete(a.pids, r.pid)
	a.mu.Unlock()
	a.oneLess()
}

// bury ends what is left of a dead rank's group, reaps the rank, and tells the head after the last
// words of the rank.
func (a *agent) bury(r *rankProc) {
	r.imaging.giveUp()      // its copy is in the group
	r.kill(syscall.SIGKILL) // the group: its number is not used again before the rank is reaped
	a.endImaging(r)
	r.devices.end()
	r.mu.Lock()
	status := proc.Wait(r.pid)
	r.reaped = true
	r.mu.Unlock()
	r.outlets.close()
	if r.buried != nil {
		r.buried()
	}
	if r.in != nil {
		if used := r.in.Used(); used != nil {
			a.head.Send(oob.Msg{Kind: oob.Input, From: oob.AgentAddr(int(a.index)), To: oob.Head, Data: wire.JSON(used)})
		}
		r.in.Close()
	}
	go func() {
		defer a.left.Done()
		select {
		case <-r.heard:
		case <-time.After(lastWords):
			// A descendant in a group of its own may hold the socket.
			r.conn.Close()
			<-r.heard
		}
		a.head.Send(oob.Msg{Kind: oob.Exit, From: int32(r.rank), To: oob.Head, A: uint64(status), B: uint64(r.pid)})
		r.out.Wait()
	}()
}

// lastWords is how long others may hold a dead rank's socket and output open before these are
// closed.
const lastWords = 500 * time.Millisecond

// oneLess notes that a rank has ended or could not be started. After the last one it also ends what
// the ranks left outside their groups.
func (a *agent) oneLess() {
	a.mu.Lock()
	a.live--
	last := a.live == 0
	a.mu.Unlock()
	if last {
		go a.lastRites()
	}
}

func (a *agent) lastRites() {
	a.imagings.Wait() // so that no child is left to another goroutine
	a.expect()        // and no other goroutine reaps
	proc.EndAll()
	a.left.Wait()
	// The head answers with its goodbye, or it is dead; run sees which.
	a.head.Send(oob.Msg{Kind: oob.Exit, From: oob.AgentAddr(int(a.index)), To: oob.Head})
	a.head.Close()
	<-a.head.Done
	close(a.gone)
}
