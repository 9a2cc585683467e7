package tcpworld

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/accept"
)

// Config is what a coordinator is asked for.
type Config struct {
	Ranks   int           // how many ranks the world has; further members are spares
	Secret  []byte        // that members know as well; not empty
	Silence time.Duration // a member that is not heard for so long is lost; 0: 10 s
	Wait    time.Duration // how long a lost rank waits for a spare to join; 0: 10 s
	Grace   time.Duration // how long an error of a function waits for a lost rank that explains it; 0: Silence
}

func (c *Config) defaults() error {
	if c.Ranks < 1 {
		return fmt.Errorf("tcpworld: %d ranks", c.Ranks)
	}
	if len(c.Secret) == 0 {
		return errNoSecret
	}
	if c.Silence <= 0 {
		c.Silence = 10 * time.Second
	}
	if c.Wait <= 0 {
		c.Wait = 10 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = c.Silence
	}
	return nil
}

var errNoSecret = errors.New("tcpworld: no secret: any process that reaches the address could join")

// Coordinate runs the coordinator of a world on a listener, which it closes, until the world is over. It returns nil if the function of each rank
// has returned nil, else an error that says what has ended the world: the first rank that failed, or the ranks that no spare could
// replace. When ctx ends, so does the world.
func Coordinate(ctx context.Context, ln net.Listener, c Config) error {
	if err := c.defaults(); err != nil {
		ln.Close()
		return err
	}
	co := &coordinator{Config: c, m: newMembership(c.Ranks), conns: map[int]*conn{}, over: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() {
		co.mu.Lock()
		defer co.mu.Unlock()
		if !co.m.over {
			co.m.over = true
			co.do([]any{tellOver{"the coordinator was told to end"}})
		}
	})
	defer stop()
	var accepting sync.WaitGroup
	accepting.Go(func() { co.accept(ln) })
	<-co.over
	ln.Close()
	accepting.Wait()
	co.leave()
	if co.text != "" {
		return fmt.Errorf("tcpworld: %s", co.text)
	}
	return nil
}

type coordinator struct {
	Config
	members sync.WaitGroup

	mu    sync.Mutex
	m     *membership
	conns map[int]*conn
	next  int
	over  chan struct{}
	text  string
}

// conn is a member's connection. What is sent waits in a queue: a member that stands still does not
// hold up others.
type conn struct {
	net.Conn
	out  chan note
	quit chan struct{}
	once sync.Once
}

func (c *conn) close() {
	c.once.Do(func() { close(c.quit); c.Close() })
}

// write sends what is queued, and pings.
func (c *conn) write(silence time.Duration) {
	tick := time.NewTicker(silence / 4)
	defer tick.Stop()
	for {
		var n note
		select {
		case n = <-c.out:
		case <-tick.C:
		case <-c.quit:
			return
		}
		c.SetWriteDeadline(time.Now().Add(silence))
		if writeNote(c, n) != nil {
			c.close()
			return
		}
	}
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, out: make(chan note, 1024), quit: make(chan struct{})}
}

// post queues a note. A member that has let so many pile up is given up.
func (c *conn) post(n note) {
	select {
	case c.out <- n:
	default:
		c.close()
	}
}

func (co *coordinator) accept(ln net.Listener) {
	accept.Each(ln.Accept, func(c net.Conn) {
		co.members.Go(func() { co.serve(newConn(c)) })
	})
}

// serve is one member, from its hello to its end.
func (co *coordinator) serve(c *conn) {
	defer c.close()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // while it has not said hello, the end of the world ends it
		select {
		case <-co.over:
			c.SetReadDeadline(time.Now().Add(co.Silence))
		case <-stop:
		}
	}()
	if greet(c, co.Secret, false) != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(co.Silence))
	n, err := readNote(c)
	if err != nil || n.Hello == nil {
		return
	}
	co.members.Go(func() { c.write(co.Silence) })
	co.mu.Lock()
	id := co.next
	co.next++
	co.conns[id] = c
	c.post(note{Taken: &taken{co.Silence}})
	if co.m.over {
		c.post(note{Over: &over{co.text}})
	}
	co.do(co.m.joined(id, *n.Hello))
	co.mu.Unlock()
	for {
		c.SetReadDeadline(time.Now().Add(co.Silence))
		n, err := readNote(c)
		if err != nil {
			break
		}
		if n.Leave != nil {
			co.mu.Lock()
			co.do(co.m.leaves(id, *n.Leave))
			co.mu.Unlock()
		}
	}
	co.mu.Lock()
	defer co.mu.Unlock()
	delete(co.conns, id)
	co.do(co.m.gone(id))
}

// do carries out decisions. Caller holds mu.
func (co *coordinator) do(actions []any) {
	for _, a := range actions {
		switch a := a.(type) {
		case tellLost:
			co.tell(func(int) note { return note{Lost: &lost{a.life, a.text}} })
		case tellLife:
			co.tell(func(id int) note { v := co.m.view(id); return note{View: &v} })
		case waitSpare:
			co.later(co.Wait, func() []any { return co.m.noSpare(a.life) })
		case waitCause:
			co.later(co.Grace, func() []any { return co.m.noCause(a.life) })
		case tellOver:
			co.text = a.text
			co.tell(func(int) note { return note{Over: &over{a.text}} })
			close(co.over)
		}
	}
}

func (co *coordinator) tell(n func(id int) note) {
	for id, c := range co.conns {
		c.post(n(id))
	}
}

func (co *coordinator) later(d time.Duration, f func() []any) {
	time.AfterFunc(d, func() {
		co.mu.Lock()
		defer co.mu.Unlock()
		co.do(f())
	})
}

// leave waits until the members have heard that the world is over and are gone, or are silent.
func (co *coordinator) leave() {
	done := make(chan struct{})
	go func() { co.members.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(co.Silence):
		co.mu.Lock()
		for _, c := range co.conns {
			c.close()
		}
		co.mu.Unlock()
		<-done
	}
}
