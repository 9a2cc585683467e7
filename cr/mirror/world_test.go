package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/tcpworld"
)

var secret = []byte("known to the members of a test")

// member is a process of a world, here a goroutine with a transport of its own.
type member struct {
	c     *cluster
	tcp   *tcpworld.World
	world *mirror.World
	node  string
}

// die is a power cut, as others see it.
func (m *member) die() { m.tcp.Close() }

// loseNodes takes all members on some nodes at once.
func (c *cluster) loseNodes(nodes ...string) {
	c.mu.Lock()
	members := slices.Clone(c.members)
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, m := range members {
		if slices.Contains(nodes, m.node) {
			wg.Go(m.die)
		}
	}
	wg.Wait()
	select {
	case c.lost <- true:
	default:
	}
}

// later brings up members once nodes were lost: no life begins before all of them are there.
func (c *cluster) later(nodes []mirror.Place, f func(ctx context.Context, m *member) error) {
	<-c.lost
	for _, at := range nodes {
		c.join(at, f)
	}
}

// cluster is a world within the test: a coordinator and members.
type cluster struct {
	t       testing.TB
	addr    string
	members []*member
	wg      sync.WaitGroup
	mu      sync.Mutex
	errs    []error
	over    chan error
	lost    chan bool
	stop    func()
	ready   chan bool // closed when the first members are there
}

// start brings up as many members as nodes are named, of which so many have ranks. f is the function of each.
func start(t testing.TB, ranks int, nodes []mirror.Place, f func(ctx context.Context, m *member) error) *cluster {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, addr: ln.Addr().String(), over: make(chan error, 1), lost: make(chan bool, 1), ready: make(chan bool)}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		c.over <- tcpworld.Coordinate(ctx, ln, tcpworld.Config{Ranks: ranks, Secret: secret, Silence: time.Minute, Grace: 100 * time.Millisecond, Wait: time.Minute})
	}()
	for _, at := range nodes {
		c.join(at, f)
	}
	close(c.ready)
	return c
}

// join brings up one more.
func (c *cluster) join(at mirror.Place, f func(ctx context.Context, m *member) error) *member {
	tcp, err := tcpworld.Join(context.Background(), c.addr, tcpworld.Options{Secret: secret, Node: at.Node, Rack: at.Rack})
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{c, tcp, mirror.New(tcp), at.Node}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	c.wg.Go(func() {
		defer m.world.Close()
		err := mirror.Run(m.world, func(ctx context.Context) error { <-c.ready; return f(ctx, m) })
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, err)
	})
	return m
}

// wait waits for the end of all, and returns what the coordinator says.
func (c *cluster) wait() error {
	select {
	case err := <-c.over:
		c.wg.Wait()
		return err
	case <-time.After(time.Minute):
		for i, m := range c.members {
			c.t.Logf("member %d on %s: %s", i, m.node, m.world.Dump())
		}
		panic("the world does not end")
	}
}

// nodesOf names a node for each member.
func nodesOf(n int) (at []mirror.Place) {
	for i := range n {
		at = append(at, mirror.Place{Node: fmt.Sprintf("n%d", i), Rack: fmt.Sprintf("r%d", i%2)})
	}
	return at
}

// state is what the test program keeps: a step, and data of unequal size that depends on rank and step.
type state struct {
	step int
	x    []uint32
}

func value(rank, step, i int) uint32 { return uint32(rank<<24 | step<<16 ^ i*2654435761) }

func (s *state) set(rank, step, n int) {
	s.step = step
	s.x = s.x[:0]
	for i := range n + 100*rank + step {
		s.x = append(s.x, value(rank, step, i))
	}
}

func (s *state) check(rank, n int) error {
	if len(s.x) != n+100*rank+s.step {
		return fmt.Errorf("rank %d step %d: %d values", rank, s.step, len(s.x))
	}
	for i, v := range s.x {
		if v != value(rank, s.step, i) {
			return fmt.Errorf("rank %d step %d: value %d is %x", rank, s.step, i, v)
		}
	}
	return nil
}

// program is what ranks do in tests: steps, each of which is an epoch, with checks of all that comes back.
type program struct {
	t      testing.TB
	opt    mirror.Options
	steps  int
	n      int
	fresh  bool                                                         // begin anew after ErrLost
	at     func(m *member, d *mirror.Description, rank, step int) error // after each Commit
	mu     sync.Mutex
	epochs map[int]map[int]bool // by life: the epochs that ranks went back to
	died   map[any]bool
	stats  mirror.Stats
}

// once reports whether it is the first time that somebody asks for a key.
func (p *program) once(key any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died == nil {
		p.died = map[any]bool{}
	}
	first := !p.died[key]
	p.died[key] = true
	return first
}

func (p *program) run(ctx context.Context, m *member) error {
	var s state
	d, err := mirror.Open(m.world, "state", p.opt)
	if err != nil {
		return err
	}
	defer d.Close()
	rank := m.world.Rank()
	if err := cmpErr(d.Region("step", &s.step), d.Region("x", &s.x)); err != nil {
		return err
	}
	epoch, err := d.Restore(ctx)
	if p.fresh && errors.Is(err, mirror.ErrLost) {
		err = nil
	}
	if err != nil {
		return err
	}
	p.restored(m.world.Life(), epoch, rank, &s)
	for s.step < p.steps {
		s.set(rank, s.step+1, p.n)
		if err := d.Start(ctx); err != nil {
			return err
		}
		if done, err := d.Commit(ctx); err != nil || !done {
			return cmpErr(err, context.Cause(ctx))
		}
		if p.at != nil {
			if err := p.at(m, d, rank, s.step); err != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Made += d.Stats().Made
	p.stats.Damaged += d.Stats().Damaged
	return nil
}

// restored checks what a rank has got.
func (p *program) restored(life, epoch, rank int, s *state) {
	p.note(life, epoch)
	if epoch == 0 {
		return
	}
	if err := s.check(rank, p.n); err != nil {
		p.t.Error(err)
	}
}

// note notes to which epoch a rank went back in a life: it is the same on all ranks.
func (p *program) note(life, epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epochs == nil {
		p.epochs = map[int]map[int]bool{}
	}
	if p.epochs[life] == nil {
		p.epochs[life] = map[int]bool{}
	}
	p.epochs[life][epoch] = true
	if len(p.epochs[life]) > 1 {
		p.t.Errorf("in life %d ranks went back to epochs %v", life, p.epochs[life])
	}
}

// backFirst is the epoch to which ranks went back first after a loss. A life may be too short for anybody to go back in it.
func (p *program) backFirst() int {
	for life := 2; life < 20; life++ {
		if e := p.back(life); e >= 0 {
			return e
		}
	}
	return -1
}

// back is the epoch that a life began with, -1 if nobody was in it.
func (p *program) back(life int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.epochs[life] {
		return e
	}
	return -1
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
