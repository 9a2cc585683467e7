package agent

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// rankProc is one rank as its agent knows it.
type rankProc struct {
	rank   int
	pid    int
	socket int // descriptor of conn
	down   *wire.Queue
	conn   *oob.Conn
	in     *stdio.Pipe // rank 0 with standard input
	held   uint64      // A of its Spawn: 1 if it waits for a debugger
	// The process that waits: the rank, or the program that it attends.
	stopped int

	restored bool         // made from an image: its frames of another incarnation are dropped
	note     string       // what was unusual about the restore
	buried   func() error // to be called when it is reaped; may be nil
	imaging  imaging
	image    string                       // restart: the path of its image, as it is told
	images   map[int]image.Source         // restart: its image and those that it builds on, by snapshot
	first    int                          // restart: the snapshot of its image
	written  atomic.Pointer[func() error] // makes the image durable that the rank is writing
	lent     atomic.Pointer[lent]         // the slot that it is writing to
	readied  chan struct{}                // closed when it can write the image that was ordered last; guarded by the agent's mu
	devices  *devices                     // its offload processes
	outlets  outlets                      // by which it writes and reads images that are not files

	mu     sync.Mutex
	reaped bool // pid is no longer ours

	heard chan struct{}  // closed when the rank's socket has been read to its end
	out   sync.WaitGroup // readers of its output

	outputs [3]*output // by stream
	lives   []uint64   // the incarnations that this process has had here; guarded by the agent's mu
	away    bool       // it has moved, and this process stands as it was captured; guarded likewise
}

// kill signals the rank's process group while the rank is not reaped: a dead leader that is not
// reaped keeps the number from being used again.
func (r *rankProc) kill(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped && r.pid > 0 {
		syscall.Kill(-r.pid, sig)
	}
}

// signal signals the rank alone.
func (r *rankProc) signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped && r.pid > 0 {
		syscall.Kill(r.pid, sig)
	}
}

// spawnAll starts the ranks of the order, from their images or afresh. A rank that cannot be started
// is an Exit with pid 0.
func (a *agent) spawnAll() {
	a.mu.Lock()
	a.live = len(a.order.Ranks)
	a.watches(a.order.MigrateOn)
	a.mu.Unlock()
	a.left.Add(len(a.order.Ranks))
	go a.sweepOrphans()
	go sweepCaptures(memoryFolder, os.TempDir())
	unbound := a.chooseCPUs()
	for _, rank := range a.order.Ranks {
		r := &rankProc{rank: rank, heard: make(chan struct{})}
		r.devices = newDevices(a, r)
		if unbound != nil {
			a.failed(r, unbound)
			continue
		}
		if len(a.order.Images[rank]) > 0 || len(a.order.Shelf) > 0 {
			makeIt := a.restore
			if a.order.Start[rank].Backend == wire.BackendSelf {
				makeIt = a.spawnFrom
			}
			a.begin(r, func(p *pipes) { go a.start(r, p, makeIt) })
			continue
		}
		a.begin(r, func(p *pipes) { a.start(r, p, a.spawn) })
	}
}

// begin makes the streams of one rank. Input for it may come from now on.
func (a *agent) begin(r *rankProc, start func(*pipes)) {
	p := &pipes{}
	if err := p.open(a.order.Stdin && r.rank == 0); err != nil {
		a.failed(r, err)
		return
	}
	if p.input >= 0 {
		in, err := stdio.NewPipe(p.input, a.order.Lines, a.ackInput)
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			a.failed(r, err)
			return
		}
		r.in, a.in = in, in
		p.input = -1
	}
	start(p)
}

// start starts one rank with what makes the process.
func (a *agent) start(r *rankProc, p *pipes, makeIt func(*rankProc, *pipes) error) {
	err := a.enter(r, p, makeIt)
	p.closeTheirs()
	if err != nil {
		p.closeOurs()
		if r.in != nil {
			r.in.Close()
		}
		a.failed(r, err)
	}
}

// failed tells the head that a rank could not be started.
func (a *agent) failed(r *rankProc, err error) {
	a.head.Send(oob.Msg{Kind: oob.Exit, From: int32(r.rank), To: oob.Head, A: uint64(joblife.CannotExec) << 8, Data: []byte(a.withRemedy(err).Error())})
	a.left.Done()
	a.oneLess()
}

// withRemedy adds the remedy if the agent itself has run out of descriptors.
func (a *agent) withRemedy(err error) error {
	a.mu.Lock()
	ranks := len(a.order.Ranks)
	a.mu.Unlock()
	return nofile.Explain(err, nofile.OfAgent(ranks), wire.MoreAgents)
}

// enter starts one rank and then all that belongs to it.
func (a *agent) enter(r *rankProc, p *pipes, makeIt func(*rankProc, *pipes) error) error {
	var err error
	r.socket = p.ours[0]
	if r.conn, err = oob.NewConn(r.socket); err != nil {
		return err
	}
	p.ours[0] = -1
	r.down = wire.NewQueue(r.conn)
	a.expect()
	err = makeIt(r, p)
	var d *death
	if err == nil {
		if d, err = watchDeath(r.pid); err != nil {
			syscall.Kill(r.pid, syscall.SIGKILL)
			proc.Wait(r.pid)
		}
	}
	if err != nil {
		a.born(nil)
		r.down.Close()
		r.conn.Close()
		return err
	}
	for stream := 1; stream <= 2; stream++ {
		r.out.Add(1)
		r.outputs[stream] = newOutput(os.NewFile(uintptr(p.ours[stream]), "rank output"))
		go a.copyOutput(r, stream)
	}
	a.attach(r, p)
	late := false
	a.born(func() {
		a.ranks[int32(r.rank)], a.pids[r.pid] = r, r
		r.lives = []uint64{a.order.Start[r.rank].Incarnation}
		late = a.killed
	})
	if late {
		r.kill(syscall.SIGKILL)
	}
	a.head.Send(oob.Msg{Kind: oob.Spawn, From: int32(r.rank), To: oob.Head, A: r.held, B: uint64(cmp.Or(r.stopped, r.pid)), Data: []byte(r.note)})
	a.tellCPUs(r)
	go a.listen(r)
	go a.await(r, d)
	return nil
}

// spawnFrom starts a fresh rank that takes its state from an image.
func (a *agent) spawnFrom(r *rankProc, p *pipes) error {
	from := a.bringAndRead
	if len(a.order.Shelf) > 0 {
		from = a.shelve
	}
	if err := from(r); err != nil {
		return err
	}
	return a.spawn(r, p)
}

// spawn starts a fresh rank. Its socket already holds the greeting and Start
// when it begins to run, so that Init costs no round trip for them.
func (a *agent) spawn(r *rankProc, p *pipes) error {
	a.greet(r)
	err := a.runOn(a.cpus[r.rank], func() (err error) {
		r.pid, err = syscall.ForkExec(string(a.order.Program), a.order.Args, &syscall.ProcAttr{
			Dir:   string(a.order.Dir),
			Env:   a.environ(r.rank),
			Files: []uintptr{uintptr(p.stdin), uintptr(p.theirs[1]), uintptr(p.theirs[2]), uintptr(p.theirs[0])},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
		return err
	})
	if err != nil {
		return proc.ExplainExec(string(a.order.Program), string(a.order.Dir), err)
	}
	return nil
}

// environ is the environment of a rank that is started afresh.
func (a *agent) environ(rank int) []string {
	env := wire.SetEnv(a.order.Env, fmt.Sprintf("%s=%d", oob.EnvRank, rank))
	env = wire.SetEnv(env, fmt.Sprintf("%s=%d", oob.EnvSize, a.startOf(rank).Size))
	return append(env, oob.EnvFD+"=3")
}

// run1 runs f on the spawner thread.
func (a *agent) run1(f func()) {
	done := make(chan struct{})
	a.spawner <- func() { f(); close(done) }
	<-done
}

// greet puts the greeting and Start, which holds the secret, on the rank's socket.
func (a *agent) greet(r *rankProc) {
	start := a.startOf(r.rank)
	start.Host, start.Image = a.order.Host, rawstring.String(r.image)
	h := wire.Hello("agent")
	h.From, h.To = oob.AgentAddr(int(a.index)), int32(r.rank)
	r.down.Send(h, oob.Msg{Kind: oob.Start, From: oob.Head, To: int32(r.rank), Incarnation: start.Incarnation, Data: wire.JSON(start)})
}

// listen reads the rank's socket to its end.
func (a *agent) listen(r *rankProc) {
	defer close(r.heard)
	for {
		m, err := r.conn.Recv()
		if err != nil {
			r.down.Close()
			r.conn.Close()
			return
		}
		a.up(r, m)
	}
}

// pipes are the descriptors of one rank: index 0 is the socket, 1 and 2 are its output streams.
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
		// Only this end does not block: a rank expects blocking output.
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
