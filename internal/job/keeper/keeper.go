package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/holder"
	"github.com/gorun-mpi/gorun/internal/system/freemem"
	"github.com/gorun-mpi/gorun/internal/system/subreaper"
	"github.com/gorun-mpi/gorun/launcher"
)

// Main is the whole life of a keeper; it returns the process's exit status. Its argument is the
// digest of the gorun that it must be.
func Main(args []string) int {
	if err := serve(args); err != nil {
		fmt.Fprintln(os.Stderr, "gorun keeper:", err)
		return joblife.Failed
	}
	return 0
}

// Limits of the start.
const (
	mostTicket = 64 << 10
	homeWithin = 45 * time.Second // the call home
	termsIn    = 30 * time.Second // until the head has answered
)

func serve(args []string) error {
	if len(args) != 1 {
		return errors.New("this verb is gorun's own: it is used to start keepers")
	}
	self, err := launcher.Self()
	if err != nil {
		return err
	}
	if self.Digest != args[0] {
		fmt.Printf("\n%sversion %s, digest %.16s\n", launcher.KeeperDiffers, launcher.Version, self.Digest)
		return nil
	}
	told := Told()
	if err := subreaper.Adopt(); err != nil {
		return err
	}
	described := make(chan described, 1)
	go func() { described <- describe() }()
	fmt.Printf("\n%s\n", launcher.KeeperReady)
	stream, err := callHome(told)
	if err != nil {
		return err
	}
	d := <-described
	if d.err != nil {
		stream.Close()
		return d.err
	}
	return newKeeper(oob.New(stream), d.info).run(told)
}

// Told returns the channel of the signals that end a keeper.
func Told() <-chan os.Signal {
	// The process that has started this one may end, or stop reading: that must not end the keeper.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return told
}

// Errors of Keep.
var (
	ErrTurned = errors.New("the head has not answered") // the head has no use for this keeper now
	ErrEnded  = errors.New("ended by a signal")
	ErrFailed = errors.New("the job has not ended well")
)

// Keep runs a keeper whose call home is done: it obeys the head until the job has ended. The
// kernel's timer stays set when it returns, unless the error is ErrTurned: the process must end, or
// start over by exec.
func Keep(stream oob.Stream, told <-chan os.Signal) error {
	if err := subreaper.Adopt(); err != nil {
		stream.Close()
		return err
	}
	info, err := Describe()
	if err != nil {
		stream.Close()
		return err
	}
	k := newKeeper(oob.New(stream), info)
	if err := k.run(told); err != nil || !k.failed {
		return err
	}
	return ErrFailed
}

// described is the result of describing this node.
type described struct {
	info *wire.NodeInfo
	err  error
}

func describe() described {
	info, err := Describe()
	return described{info, err}
}

// callHome reads the ticket and calls home. It gives up when standard input ends or a signal comes.
func callHome(told <-chan os.Signal) (oob.Stream, error) {
	in := bufio.NewReaderSize(io.LimitReader(os.Stdin, mostTicket), 4<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("no ticket has come on standard input: %w", err)
	}
	var t rendezvous.Ticket
	if err := json.Unmarshal(line, &t); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), homeWithin, fmt.Errorf("not within %v", homeWithin))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		in.ReadByte() // no data follows: a return means the end of the input
		stop(errors.New("the process that started this keeper is gone"))
	}()
	go func() {
		select {
		case s := <-told:
			stop(fmt.Errorf("ended by %s", joblife.SignalName(s.(syscall.Signal))))
		case <-ctx.Done():
		}
	}()
	s, err := rendezvous.Call(ctx, t)
	if why := context.Cause(ctx); err != nil && why != nil {
		err = fmt.Errorf("%w: %w", why, err)
	}
	return s, err
}

// keeper is the process. Its state belongs to run's goroutine, except fields that mu guards.
type keeper struct {
	conn     *oob.Conn
	head     *wire.Queue
	info     *wire.NodeInfo
	done     chan uint64 // numbers of agents of which nothing is left
	stage    stage
	files    *files
	listener *listener.Listener // nil: nobody needs it

	flushes *flushes
	memory  *mem.Memory // images of this node's ranks, and mirrors of others
	copier  *holder.Copier
	copies  sync.WaitGroup

	copying sync.Map        // of number of a copy under way to its context.CancelFunc
	ctx     context.Context // of copies
	cancel  context.CancelFunc

	failed  bool // the head has said goodbye, and that the job has not ended well
	leaving bool // the head has been told that it leaves

	mu     sync.Mutex
	holder *lease.Holder
	timer  *lease.Timer
	agents map[uint64]*agent
}

func newKeeper(conn *oob.Conn, info *wire.NodeInfo) *keeper {
	k := &keeper{conn: conn, head: wire.NewQueue(conn), info: info, done: make(chan uint64, 16), agents: map[uint64]*agent{}, stage: newStage()}
	k.memory = mem.New(freemem.Free)
	k.copier = holder.NewCopier(k.memory, info.Host)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.files = newFiles(k.head, k.memory)
	k.flushes = newFlushes(k.head, k.memory)
	sweep()
	return k
}

// run obeys the head until it says goodbye, is gone, or gives no lease any more.
func (k *keeper) run(told <-chan os.Signal) error {
	h := wire.Hello("keeper")
	h.Data = wire.JSON(struct {
		oob.HelloInfo
		Node *wire.NodeInfo `json:"node"`
	}{oob.HelloInfo{Role: "keeper", PID: os.Getpid(), Arch: k.info.Arch, Library: launcher.Version}, k.info})
	k.head.Send(h)
	terms, err := k.terms()
	if err != nil {
		k.conn.Close()
		k.head.Close()
		return err
	}
	frames, ended := make(chan oob.Msg), make(chan error, 1)
	go func() {
		for {
			m, err := k.conn.Recv()
			if err != nil {
				ended <- err
				return
			}
			frames <- m
		}
	}()
	why := k.loop(terms, frames, ended, told)
	if errors.Is(why, ErrEnded) {
		k.head.Send(oob.Msg{Kind: oob.Leaving, To: oob.Head, Data: []byte(why.Error())})
		k.leaving = true
	}
	go func() {
		for range frames { // the reader must not hang while this process leaves
		}
	}()
	return errors.Join(why, k.leave())
}

// terms hears the head's greeting.
func (k *keeper) terms() (lease.Terms, error) {
	k.conn.SetReadDeadline(time.Now().Add(termsIn))
	m, err := k.conn.Recv()
	if err != nil {
		return lease.Terms{}, fmt.Errorf("%w: %w", ErrTurned, err)
	}
	k.conn.SetReadDeadline(time.Time{})
	if _, err := oob.CheckHello(&m); err != nil {
		return lease.Terms{}, err
	}
	var w wire.Terms
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return lease.Terms{}, fmt.Errorf("terms of the lease: %w", err)
	}
	t := lease.Terms{L: time.Duration(w.LeaseMillis) * time.Millisecond, H: time.Duration(w.BeatMillis) * time.Millisecond}
	if err := t.Check(); err != nil {
		return t, err
	}
	if k.timer, err = lease.NewTimer(); err != nil {
		return t, err
	}
	k.holder = lease.NewHolder(t)
	return t, nil
}

// early is how long before its lease ends a keeper leaves: it takes a moment to end everything.
const early = 500 * time.Millisecond

// loop works until the keeper's life ends, and returns the reason.
func (k *keeper) loop(terms lease.Terms, frames <-chan oob.Msg, ended <-chan error, told <-chan os.Signal) error {
	beat := time.NewTicker(terms.H)
	defer beat.Stop()
	limit := time.NewTimer(termsIn) // of the first grant, then of the lease
	defer limit.Stop()
	k.ask()
	for {
		select {
		case <-beat.C:
			k.ask()
		case m := <-frames:
			if m.Kind == oob.KillAll {
				k.failed = m.A != 0
				return nil
			}
			if err := k.obey(&m); err != nil {
				return err
			}
			if m.Kind == oob.Grant {
				limit.Reset(time.Duration(k.until()-lease.Now())*time.Millisecond - early)
			}
		case n := <-k.done:
			k.ended(n)
		case <-limit.C:
			return errors.New("the head has not renewed the lease")
		case err := <-ended:
			return fmt.Errorf("the connection to the head has ended: %w", err)
		case s := <-told:
			return fmt.Errorf("%w: %s", ErrEnded, joblife.SignalName(s.(syscall.Signal)))
		}
	}
}

// ask asks for the lease
func (k *keeper) ask() {
	k.mu.Lock()
	a := k.holder.Ask(lease.Now())
	k.mu.Unlock()
	k.head.Send(oob.Msg{Kind: oob.Renew, To: oob.Head, A: uint64(a)})
}

// granted takes a grant, and hands it to the agents.
func (k *keeper) granted(a int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holder.Granted(a, lease.Now())
	until := k.holder.Until()
	if until == 0 {
		return nil
	}
	if err := k.timer.Set(until); err != nil {
		return err
	}
	for _, g := range k.agents {
		g.queue.Send(oob.Msg{Kind: oob.Grant, A: uint64(until)})
	}
	return nil
}

func (k *keeper) until() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holder.Until()
}

// obey carries out a frame of the head. An error ends the keeper.
func (k *keeper) obey(m *oob.Msg) error {
	switch m.Kind {
	case oob.Grant:
		return k.granted(int64(m.A))
	case oob.Begin:
		if err := k.begin(m); err != nil {
			k.head.Send(oob.Msg{Kind: oob.Ended, To: oob.Head, A: m.A, Data: []byte(err.Error())})
		}
	case oob.End:
		k.mu.Lock()
		g := k.agents[m.A]
		k.mu.Unlock()
		if g != nil {
			g.kill()
		}
	case oob.Provide:
		k.provide(m)
	case oob.Piece:
		k.stage.piece(m)
	case oob.Folder:
		k.files.folder(m)
	case oob.Files:
		return k.files.server.Handle(m.Data)
	case oob.Listen:
		k.listen()
	case oob.Flush:
		k.flushes.order(m)
	case oob.Copy:
		k.copy(m)
	}
	return nil
}

// farewell bounds the report to the head that nothing is left.
const farewell = 200 * time.Millisecond

// leave ends all processes of the job on this node, and tells the head if it can be reached.
func (k *keeper) leave() error {
	k.files.server.Close()
	k.flushes.close()
	if k.listener != nil {
		k.listener.Close()
	}
	k.mu.Lock()
	for _, g := range k.agents {
		g.kill()
	}
	left := len(k.agents)
	k.mu.Unlock()
	for range left {
		k.ended(<-k.done)
	}
	subreaper.Bury()
	if k.leaving {
		k.head.Send(oob.Msg{Kind: oob.Left, To: oob.Head})
	}
	k.release()
	err := k.stage.remove()
	k.head.Close()
	select {
	case <-k.head.Done:
	case <-time.After(farewell):
	}
	k.conn.Close()
	return err
}
