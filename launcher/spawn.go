package launcher

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// rankProc is one rank as its agent knows it.
type rankProc struct {
	rank int
	pid  int
	down *queue
	conn *oob.Conn
	in   *inputPipe // rank 0 with standard input

	mu     sync.Mutex
	reaped bool // pid is no longer ours

	heard chan struct{}  // closed when the rank's socket has been read to its end
	out   sync.WaitGroup // readers of its output
}

// kill signals the rank's process group, as long as the rank is not reaped: a
// dead but unreaped leader keeps the number from being used again.
func (r *rankProc) kill(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped && r.pid > 0 {
		syscall.Kill(-r.pid, sig)
	}
}

// spawnAll starts the ranks in the order; a rank that cannot be started is an
// Exit with pid 0.
func (a *agent) spawnAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rank := range a.order.Ranks {
		r := &rankProc{rank: rank, heard: make(chan struct{})}
		if err := a.spawn(r); err != nil {
			a.head.send(oob.Msg{Kind: oob.Exit, From: int32(rank), To: oob.Head, A: uint64(ExitCannotExec) << 8, Data: []byte(err.Error())})
			continue
		}
		a.ranks[int32(rank)] = r
		a.pids[r.pid] = r
		a.live++
		a.left.Add(1)
		a.head.send(oob.Msg{Kind: oob.Spawn, From: int32(rank), To: oob.Head, B: uint64(r.pid)})
		go a.listen(r)
	}
	go a.reap()
}

// spawn starts one rank. Its socket already holds the greeting and Start when
// it begins to run, so that Init costs no round trip for them.
func (a *agent) spawn(r *rankProc) error {
	var p pipes
	defer p.closeTheirs()
	if err := p.open(a.order.Stdin && r.rank == 0); err != nil {
		return err
	}
	var err error
	if r.conn, err = oob.NewConn(p.ours[0]); err != nil {
		p.closeOurs()
		return err
	}
	a.run1(func() {
		r.pid, err = syscall.ForkExec(a.order.Program, a.order.Args, &syscall.ProcAttr{
			Dir:   a.order.Dir,
			Env:   append(a.order.Env[:len(a.order.Env):len(a.order.Env)], oob.EnvFD+"=3"),
			Files: []uintptr{uintptr(p.stdin), uintptr(p.theirs[1]), uintptr(p.theirs[2]), uintptr(p.theirs[0])},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	})
	if err != nil {
		r.conn.Close()
		p.ours[0] = -1
		p.closeOurs()
		return fmt.Errorf("%s: %w", a.order.Program, err)
	}
	r.down = newQueue(r.conn)
	a.greet(r)
	if p.input >= 0 {
		r.in = newInputPipe(p.input, a.ackInput)
	}
	for stream := 1; stream <= 2; stream++ {
		r.out.Add(1)
		go a.copyOutput(r, stream, os.NewFile(uintptr(p.ours[stream]), "rank output"))
	}
	return nil
}

// run1 runs f on the spawner thread.
func (a *agent) run1(f func()) {
	done := make(chan struct{})
	a.spawner <- func() { f(); close(done) }
	<-done
}

// greet puts the greeting and Start, which holds the secret, on the rank's socket.
func (a *agent) greet(r *rankProc) {
	start := a.order.Start[r.rank]
	start.Host = a.order.Host
	h := hello("agent")
	h.From, h.To = oob.AgentAddr(int(a.index)), int32(r.rank)
	r.down.send(h, oob.Msg{Kind: oob.Start, From: oob.Head, To: int32(r.rank), Incarnation: start.Incarnation, Data: mustJSON(start)})
}

// listen reads the rank's socket to its end.
func (a *agent) listen(r *rankProc) {
	defer close(r.heard)
	for {
		m, err := r.conn.Recv()
		if err != nil {
			r.down.close()
			r.conn.Close()
			return
		}
		a.up(r, m)
	}
}

// reap waits for every child of this process until there is none, in the one
// place where that is done. When the last rank has ended, whatever the ranks
// left behind outside their groups ends too.
func (a *agent) reap() {
	for {
		a.mu.Lock()
		if a.live == 0 {
			killChildren()
		}
		a.mu.Unlock()
		// Look first, without reaping: while the body is there its number is
		// the rank's and its group can be ended safely.
		pid, err := waitAny()
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break // no child is left
		}
		a.mu.Lock()
		r := a.pids[pid]
		a.mu.Unlock()
		if r == nil {
			wait4(pid) // an orphan of a rank's
			continue
		}
		a.bury(r)
		a.mu.Lock()
		a.live--
		delete(a.pids, pid)
		a.mu.Unlock()
	}
	a.left.Wait()
	a.head.close()
	<-a.head.done
	close(a.gone)
	// The head answers the end of our side with its goodbye, or it is dead;
	// run sees which.
	unix.Shutdown(AgentFD, unix.SHUT_WR)
}

// bury ends what is left of a dead rank's group, reaps the rank and tells the
// head, after what the rank said last.
func (a *agent) bury(r *rankProc) {
	r.mu.Lock()
	syscall.Kill(-r.pid, syscall.SIGKILL)
	status := wait4(r.pid)
	r.reaped = true
	r.mu.Unlock()
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

// waitAny waits until a child has ended and returns its number without reaping it.
func waitAny() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	return siginfoPid(&info), nil
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

// killChildren ends every child of this process, without reaping.
func killChildren() {
	for _, pid := range children() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// pipes are the descriptors of one rank: index 0 is the socket, 1 and 2 are its
// output streams.
type pipes struct {
	stdin        int // the rank's end of standard input
	input        int // our end of it, -1 if the rank gets none
	ours, theirs [3]int
}

func (p *pipes) open(stdin bool) (err error) {
	*p = pipes{stdin: -1, input: -1, ours: [3]int{-1, -1, -1}, theirs: [3]int{-1, -1, -1}}
	defer func() {
		if err != nil {
			p.closeOurs()
		}
	}()
	if p.ours[0], p.theirs[0], err = oob.Pair(); err != nil {
		return err
	}
	for i := 1; i <= 2; i++ {
		if p.ours[i], p.theirs[i], err = pipe(); err != nil {
			return err
		}
		// Ours alone: a rank expects blocking output.
		if err = syscall.SetNonblock(p.ours[i], true); err != nil {
			return err
		}
	}
	if !stdin {
		p.stdin, err = syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		return err
	}
	if p.stdin, p.input, err = pipe(); err != nil {
		return err
	}
	return syscall.SetNonblock(p.input, true)
}

func pipe() (r, w int, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	return fds[0], fds[1], nil
}

func (p *pipes) closeTheirs() { closeAll(p.stdin, p.theirs[0], p.theirs[1], p.theirs[2]) }
func (p *pipes) closeOurs()   { closeAll(p.input, p.ours[0], p.ours[1], p.ours[2]) }

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}
