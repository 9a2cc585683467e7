package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/launcher"
)

// Up brings up the nodes. It returns when each is up or cannot be used. The error says why there
// are too few for the ranks, and what is wrong with each node. It waits only briefly for a node
// that a spare can replace.
func (f *Fleet) Up(ctx context.Context) error {
	up, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	for i := range f.nodes {
		wait.Go(func() {
			ctx, done := f.patient(up)
			defer done()
			f.bring(ctx, i)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.awaited != nil || f.missing() > f.cfg.Rules.Spares && !f.cfg.Rules.Shrink {
				return
			}
			if _, _, err := f.place(); err == nil { // the nodes that are up suffice
				time.AfterFunc(f.cfg.Grace, func() { f.enough(up, cancel) })
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.mu.Lock()
	f.twins()
	f.mu.Unlock()
	f.see(ctx, f.keepers())
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, n := range f.nodes {
		if n.err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", n.Name, n.err))
		}
	}
	placed, _, err := f.place()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, err := range errs {
		f.cfg.Say(err.Error()+" (the job begins without it)", false)
	}
	f.placed = placed
	return nil
}

// enough gives up the nodes that are not up, if the others still suffice: one of these may have
// been lost meanwhile.
func (f *Fleet) enough(up context.Context, giveUp context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if up.Err() != nil {
		return
	}
	if _, _, err := f.place(); err == nil {
		giveUp(fmt.Errorf("it was not up %v after enough others were", f.cfg.Grace))
	}
}

// missing is how many nodes are not up. Unless there is a spare for each, the ranks cannot be
// placed. Placing them would show that, too, but takes long for thousands of nodes.
func (f *Fleet) missing() (n int) {
	for _, node := range f.nodes {
		if !node.usable() {
			n++
		}
	}
	return n
}

// patient bounds the time that a node may take to come up.
func (f *Fleet) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := upWithin
	if f.awaited != nil {
		limit = f.awaited.Patience()
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not up after %v", limit))
}

// bring brings up node i. If keepers come by themselves, it waits for another one when a keeper
// leaves before the node is up.
func (f *Fleet) bring(ctx context.Context, i int) {
	for {
		f.mu.Lock()
		n := f.nodes[i]
		f.mu.Unlock()
		err := n.bringUp(ctx)
		f.mu.Lock()
		if err != nil {
			n.fail(err)
		}
		again := err != nil && f.awaited != nil && ctx.Err() == nil && !errors.As(err, new(*unfit))
		if again {
			f.nodes[i] = newNode(f, i, n.Node)
		}
		f.tell()
		f.mu.Unlock()
		if !again {
			return
		}
	}
}

// await admits another keeper in place of a fenced node's, if keepers come by themselves.
func (f *Fleet) await(old *node) {
	f.mu.Lock()
	again := f.awaited != nil && !f.closing() && f.nodes[old.number] == old
	if again {
		f.nodes[old.number] = newNode(f, old.number, old.Node)
	}
	f.mu.Unlock()
	if !again {
		return
	}
	ctx, cancel := f.whileOpen()
	defer cancel()
	f.bring(ctx, old.number)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.nodes[old.number]; n.usable() {
		n.say(false, "is there again")
	}
}

// whileOpen ends when the fleet is closed.
func (f *Fleet) whileOpen() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-f.done:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

var errClosed = errors.New("the job has ended")

// tell wakes goroutines that wait for nodes.
func (f *Fleet) tell() {
	close(f.news)
	f.news = make(chan struct{})
}

// fail marks the node as unusable.
func (n *node) fail(err error) {
	if n.state == starting {
		n.enter(failed)
		n.err = err
		close(n.ended)
		close(n.fenced)
	}
}

// twins refuses nodes that are one machine under several names: it would get the ranks of both.
func (f *Fleet) twins() {
	for i, n := range f.nodes {
		for _, m := range f.nodes[:i] {
			if n.usable() && m.usable() && n.info.Same(m.info) {
				n.out, n.err = true, m.alsoNamed()
				break
			}
		}
	}
}

func (n *node) alsoNamed() error {
	return fmt.Errorf("it is the machine that is also named %s: name it once, with as many slots as both, as %s:2", n.Name, n.Name)
}

// twin refuses a joining node that is the same machine as another one. That includes a lost node
// that may still act.
func (n *node) twin(info *wire.NodeInfo) error {
	if n.f.placed == nil {
		return nil // twins are found when all are up
	}
	for _, m := range n.f.nodes {
		switch {
		case m == n || m.info == nil || !m.info.Same(info):
		case m.state == lost:
			return fmt.Errorf("it is the machine that is also named %s, where ranks may still act: try again when gorun status says fenced", m.Name)
		case m.state == starting || m.state == up || m.state == suspect:
			return m.alsoNamed()
		}
	}
	return nil
}

// bringUp starts the keeper and checks the node.
func (n *node) bringUp(ctx context.Context) error {
	f := n.f
	if isOwn(ctx, n) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := n.twin(f.own); err != nil {
			return err
		}
		n.own, n.info = true, f.own
		n.enter(up)
		return nil
	}
	if f.cfg.Manager == nil {
		return errors.New("there is no way to start anything there")
	}
	err := n.start(ctx, func(t rendezvous.Ticket) (launcher.Process, error) {
		return f.cfg.Manager.Start(ctx, n.target(), wire.JSON(t))
	})
	var deaf *unreached
	if tunneler, ok := f.cfg.Manager.(launcher.Tunneler); ok && errors.As(err, &deaf) && ctx.Err() == nil {
		n.say(true, "cannot call home (%v): it goes through %s", err, f.cfg.Manager.Name())
		port, perr := portOf(f.home.Addresses())
		if perr != nil {
			return errors.Join(err, perr)
		}
		err = n.start(ctx, func(t rendezvous.Ticket) (launcher.Process, error) {
			return tunneler.StartThrough(ctx, n.target(), port, func(port int) []byte {
				through := fmt.Sprintf("127.0.0.1:%d", port)
				f.mu.Lock()
				n.through = through
				f.mu.Unlock()
				t.Addresses = []string{through}
				return wire.JSON(t)
			})
		})
	}
	return err
}

func (n *node) target() launcher.Node {
	return launcher.Node{Name: n.Name, User: n.User, Addr: n.Addr}
}

// unreached is the error of a keeper that has ended before it called home.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// start starts the keeper in one way, and reads and checks its greeting.
func (n *node) start(ctx context.Context, start func(rendezvous.Ticket) (launcher.Process, error)) error {
	f := n.f
	if f.awaited == nil {
		select {
		case f.logins <- struct{}{}:
			defer func() { <-f.logins }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	calls, forget := f.expect(call{n.number, rendezvous.Keeper, n.joined})
	defer forget()
	p, err := start(f.home.Ticket(n.number, rendezvous.Keeper, n.joined))
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- p.Wait() }()
	if f.awaited != nil {
		late := time.AfterFunc(sayAfter, func() { n.say(false, "has not called yet") })
		defer late.Stop()
	}
	select {
	case a := <-calls:
		err = n.greet(ctx, a)
	case err = <-over:
		if err == nil {
			err = errors.New("it has ended")
		}
		return &unreached{fmt.Errorf("the keeper has not come home: %w", err)}
	case <-ctx.Done():
		err = fmt.Errorf("the keeper has not come home: %w", context.Cause(ctx))
	}
	if err != nil {
		p.Kill()
		return err
	}
	if f.awaited != nil {
		return p.Kill() // nothing here goes on
	}
	f.mu.Lock()
	n.process = p
	f.mu.Unlock()
	return nil
}

// greet exchanges greetings with a keeper.
func (n *node) greet(ctx context.Context, a arrival) error {
	f := n.f
	conn := oob.New(a.stream)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	m, err := conn.Recv()
	if err == nil {
		_, err = oob.CheckHello(&m)
	}
	var h struct {
		Node *wire.NodeInfo `json:"node"`
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &h)
	}
	if err == nil {
		if err = n.check(h.Node); err != nil {
			err = &unfit{err}
		}
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	hello := wire.Hello("head")
	hello.Data = wire.JSON(wire.Terms{LeaseMillis: f.cfg.Terms.L.Milliseconds(), BeatMillis: f.cfg.Terms.H.Milliseconds()})
	f.mu.Lock()
	if err := n.twin(h.Node); err != nil {
		f.mu.Unlock()
		conn.Close()
		return &unfit{err}
	}
	n.conn, n.queue, n.info = conn, wire.NewQueue(conn), h.Node
	n.address = hostOf(a.caller.Remote)
	if n.through != "" {
		n.address = first(h.Node.Addresses)
	} else if f.hosts == "" {
		f.hosts = hostOf(a.caller.Local)
	}
	n.files = newFiles(n.queue)
	n.queue.Send(hello)
	f.mu.Unlock()
	go n.read()
	select {
	case <-n.leased: // not before: without a lease it may do nothing
		return nil
	case <-n.ended:
		return n.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unfit is a fault of a node that another keeper cannot mend.
type unfit struct{ error }

func (u *unfit) Unwrap() error { return u.error }

// check refuses a node that does not fit.
func (n *node) check(info *wire.NodeInfo) error {
	own := n.f.own
	switch {
	case info == nil || info.Machine == "" || info.CPUs < 1:
		return errors.New("its keeper does not describe it")
	case info.Arch != own.Arch:
		return fmt.Errorf("it is of another architecture (%s) than the head (%s): all nodes of a job must be of one", info.Arch, own.Arch)
	case info.Digest != own.Digest:
		return fmt.Errorf("its gorun is another one (version %s) than the head's (%s): install the same", info.Version, own.Version)
	case info.Same(own):
		return errors.New("it is the head's own machine, under a name that this machine does not know as its own: name it localhost")
	}
	return nil
}

func hostOf(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ""
	}
	return ap.Addr().Unmap().String()
}

// isOwn reports whether a node is the head's own machine, as its user: by its name or address.
func isOwn(ctx context.Context, n *node) bool {
	if n.User != "" && n.User != os.Getenv("USER") {
		return false
	}
	name := n.Name
	if n.Addr != "" {
		name = n.Addr
	}
	own := wire.Hostname()
	short, _, _ := strings.Cut(own, ".")
	if name == "localhost" || name == own || name == short {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return false // the manager reports what is wrong with it, or resolves it
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, ip := range ips {
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == ip.Unmap().WithZone("") {
				return true
			}
		}
		if ip.IsLoopback() {
			return true
		}
	}
	return false
}

// portOf is the port of a home.
func portOf(addresses []string) (int, error) {
	for _, a := range addresses {
		if _, port, err := net.SplitHostPort(a); err == nil {
			return strconv.Atoi(port)
		}
	}
	return 0, errors.New("the head's home has no address")
}

// first is the first of a node's addresses, without the length of its network's prefix.
func first(prefixes []string) string {
	for _, s := range prefixes {
		if p, err := netip.ParsePrefix(s); err == nil {
			return p.Addr().String()
		}
	}
	return ""
}
