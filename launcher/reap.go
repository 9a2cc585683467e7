package launcher

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// An agent has three kinds of children. Ranks: each has a pidfd, and whoever
// watches it reaps the rank. Copies of ranks that are being imaged: they belong
// to the imaging. And whatever a rank's dead children have left: swept when the
// kernel says that some child has ended.
//
// Nothing here waits for "any child": that would take a traced child's stops,
// which the tracing waits for, as if they were deaths.

// death is a way to wait for a child's end that takes nothing: not its status,
// and no stop of it while it is traced.
type death struct{ f *os.File }

// watchDeath begins to watch a child that is not reaped.
func watchDeath(pid int) (*death, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd of process %d (Linux 5.3 has them): %w", pid, err)
	}
	// A file that does not block is waited for by the runtime's poller, not by a
	// thread for each rank.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	return &death{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns when the process and all its threads have ended and, if they were
// traced, have been let go.
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

// expect announces a child that is about to be born: nothing is swept until born
// is called, for it could not be told from an orphan.
func (a *agent) expect() {
	a.mu.Lock()
	a.unborn++
	a.mu.Unlock()
}

// born ends an expect; register, which may be nil, enters the child where the
// sweep looks.
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
	for _, pid := range children() {
		if a.pids[pid] != nil || a.copies[pid] {
			continue
		}
		if st, ok := readStat(pid); ok && st.state == 'Z' {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// await waits for a rank's end and buries it.
func (a *agent) await(r *rankProc, d *death) {
	if err := d.wait(); err != nil {
		// It cannot be watched, and must not run on unwatched.
		fmt.Fprintln(os.Stderr, "gorun agent:", err)
		r.kill(syscall.SIGKILL)
	}
	a.bury(r)
	a.mu.Lock()
	delete(a.pids, r.pid)
	a.mu.Unlock()
	a.oneLess()
}

// bury ends what is left of a dead rank's group, reaps the rank and tells the
// head, after what the rank said last.
func (a *agent) bury(r *rankProc) {
	r.imaging.giveUp()      // its copy is in the group
	r.kill(syscall.SIGKILL) // the group: its number is the rank's as long as the body is there
	a.endImaging(r)
	r.mu.Lock()
	status := wait4(r.pid)
	r.reaped = true
	r.mu.Unlock()
	if r.buried != nil {
		r.buried()
	}
	if r.in != nil {
		r.in.close()
	}
	go func() {
		defer a.left.Done()
		select {
		case <-r.heard:
		case <-time.After(lastWords):
			// A descendant in a group of its own holds the socket.
			r.conn.Close()
			<-r.heard
		}
		a.head.send(oob.Msg{Kind: oob.Exit, From: int32(r.rank), To: oob.Head, A: uint64(status), B: uint64(r.pid)})
		r.out.Wait()
	}()
}

// lastWords is how long a dead rank's socket and output may be held open by
// somebody else before they are closed.
const lastWords = 500 * time.Millisecond

// oneLess notes that a rank has ended or could not be started. After the last
// one, whatever the ranks left behind outside their groups ends too.
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
	a.imagings.Wait() // so that no child is anybody's but ours
	a.expect()        // and nobody else reaps
	for pids := children(); len(pids) > 0; pids = children() {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range pids {
			wait4(pid)
		}
	}
	a.left.Wait()
	a.head.close()
	<-a.head.done
	// The head answers the end of our side with its goodbye, or it is dead;
	// run sees which.
	unix.Shutdown(a.fd, unix.SHUT_WR)
	close(a.gone)
}

// wait4 reaps one child that is known to have ended or to end at once.
func wait4(pid int) syscall.WaitStatus {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err != syscall.EINTR {
			return ws
		}
	}
}

// children lists the children of this process, dead but unreaped ones too.
func children() []int {
	var pids []int
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if os.IsNotExist(err) {
			if _, err := os.Stat("/proc/self/task/" + t.Name()); err == nil {
				return childrenByScan() // a kernel without that file
			}
			continue // the thread ended
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByScan does the same by looking at every process.
func childrenByScan() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, ok := readStat(pid); ok && st.ppid == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
