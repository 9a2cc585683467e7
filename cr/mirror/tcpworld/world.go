package tcpworld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/internal/system/accept"
)

// Options say who a member is.
type Options struct {
	Secret []byte // the coordinator's
	Node   string // what is lost together with this process; "": the host's name
	Rack   string // what nodes may be lost together; "": not known
	Listen string // the address that other members reach, as HOST:PORT; "": any port where the coordinator is called from
}

// World is a member's view of a world. It is a mirror.Transport, and carries messages of the program.
type World struct {
	o       Options
	ctrl    *conn
	ln      net.Listener
	sink    mirror.Sink
	wg      sync.WaitGroup
	silence time.Duration // without a word of the coordinator for so long the world is over

	mu      sync.Mutex
	changed chan struct{}
	view    view          // the newest
	session *session      // of the view, if this member has a rank in it
	old     []*session    // of lives before, until they are fenced
	entered uint32        // what Join has returned last
	open    chan struct{} // closed when Join has returned the session
	gone    uint32        // newest life that was told to be lost
	over    *over
	closed  bool
}

// Join makes this process a member of the world whose coordinator listens at an address. Whether it has a rank or is a spare
// the world's Join tells (that of mirror.World, or mirror.Run).
//
// Errors: the coordinator is not reached before ctx ends; it does not know the secret; no address to listen at.
func Join(ctx context.Context, coordinator string, o Options) (*World, error) {
	if len(o.Secret) == 0 {
		return nil, errNoSecret
	}
	if o.Node == "" {
		o.Node, _ = os.Hostname()
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", coordinator)
	if err != nil {
		return nil, fmt.Errorf("tcpworld: coordinator: %w", err)
	}
	if err := greet(c, o.Secret, true); err != nil {
		c.Close()
		return nil, fmt.Errorf("tcpworld: coordinator %s: %w", coordinator, err)
	}
	if o.Listen == "" {
		host, _, _ := net.SplitHostPort(c.LocalAddr().String())
		o.Listen = net.JoinHostPort(host, "0")
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("tcpworld: %w", err)
	}
	w := &World{o: o, ctrl: newConn(c), ln: ln, changed: make(chan struct{})}
	if err := w.hello(); err != nil {
		c.Close()
		ln.Close()
		return nil, fmt.Errorf("tcpworld: coordinator %s: %w", coordinator, err)
	}
	w.wg.Go(func() { w.ctrl.write(w.silence) })
	w.wg.Go(w.listen)
	w.wg.Go(w.accept)
	return w, nil
}

// hello has the coordinator take this member.
func (w *World) hello() error {
	w.ctrl.SetDeadline(time.Now().Add(shakeTime))
	if err := writeNote(w.ctrl, note{Hello: &place{Node: w.o.Node, Rack: w.o.Rack, Addr: w.ln.Addr().String()}}); err != nil {
		return err
	}
	n, err := readNote(w.ctrl)
	if err != nil {
		return err
	}
	if n.Taken == nil || n.Taken.Silence <= 0 {
		return errors.New("it does not take this process: is it a coordinator?")
	}
	w.silence = n.Taken.Silence
	return w.ctrl.SetDeadline(time.Time{})
}

// Serve implements mirror.Transport.
func (w *World) Serve(s mirror.Sink) { w.sink = s }

// wake tells of a change. Caller holds mu.
func (w *World) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// listen takes the coordinator's notes.
func (w *World) listen() {
	for {
		w.ctrl.SetReadDeadline(time.Now().Add(w.silence))
		n, err := readNote(w.ctrl)
		w.mu.Lock()
		switch {
		case err != nil:
			if w.over == nil {
				w.over = &over{"the coordinator is gone, or has given this member up: " + err.Error()}
			}
			w.end(mirror.ErrOver)
		case n.Lost != nil:
			w.gone = max(w.gone, n.Lost.Life)
			w.end(fmt.Errorf("%s: %w", n.Lost.Text, mirror.ErrFailed))
		case n.View != nil && n.View.Life > w.view.Life:
			w.end(mirror.ErrFailed)
			w.view = *n.View
			if w.view.Rank >= 0 {
				if w.session != nil {
					w.old = append(w.old, w.session)
				}
				w.session, w.open = newSession(w, w.view), make(chan struct{})
			}
		case n.Over != nil:
			w.over = n.Over
			w.end(mirror.ErrOver)
		}
		w.wake()
		w.mu.Unlock()
		if err != nil {
			w.ctrl.close()
			return
		}
	}
}

// end ends the present life. Caller holds mu.
func (w *World) end(cause error) {
	if w.session != nil {
		w.session.end(cause)
	}
}

// Join implements mirror.Transport.
func (w *World) Join(ctx context.Context, after uint32) (*mirror.Life, error) {
	for {
		w.mu.Lock()
		changed, s, old := w.changed, w.session, w.old
		switch {
		case s != nil && s.view.Life > max(after, w.gone):
			w.old = nil
			w.mu.Unlock()
			for _, s := range old {
				s.fence()
			}
			w.mu.Lock()
			if w.entered < s.view.Life && w.session == s {
				w.entered = s.view.Life
				close(w.open)
			}
			w.mu.Unlock()
			return s.life(), nil
		case w.over != nil && w.over.Text != "":
			w.mu.Unlock()
			return nil, fmt.Errorf("tcpworld: %s", w.over.Text)
		case w.over != nil || w.closed:
			w.mu.Unlock()
			return nil, mirror.ErrOver
		}
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave implements mirror.Transport.
func (w *World) Leave(ctx context.Context, life uint32, result error) error {
	l := leave{Life: life}
	if result != nil {
		l.Text = cmp.Or(result.Error(), "an error without a text")
	}
	w.ctrl.post(note{Leave: &l})
	for {
		w.mu.Lock()
		changed := w.changed
		over, gone := w.over, w.view.Life > life || w.gone >= life
		w.mu.Unlock()
		switch {
		case over != nil && over.Text == "":
			return nil
		case over != nil && result != nil:
			return result
		case over != nil:
			return fmt.Errorf("tcpworld: %s", over.Text)
		case gone:
			return mirror.ErrFailed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close leaves the world without a word: to the others this member is lost, unless the world is over.
func (w *World) Close() error {
	w.mu.Lock()
	w.closed = true
	w.end(mirror.ErrOver)
	all := w.old
	if w.session != nil {
		all = append(all, w.session)
	}
	w.wake()
	w.mu.Unlock()
	w.ctrl.close()
	w.ln.Close()
	w.wg.Wait()
	for _, s := range all {
		s.fence()
	}
	return nil
}

// now is the session of a life that Join has returned.
func (w *World) now(life uint32) (*session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.session; s != nil && s.view.Life == life && w.entered == life {
		return s, nil
	}
	return nil, fmt.Errorf("life %d is over: %w", life, mirror.ErrFailed)
}

// Put implements mirror.Transport.
func (w *World) Put(ctx context.Context, life uint32, to int, head, body []byte) error {
	s, err := w.now(life)
	if err != nil {
		return err
	}
	return s.send(ctx, to, blockLine, frame{uint32(len(head)), uint32(len(body))}, head, body)
}

// accept takes connections of other members.
func (w *World) accept() {
	accept.Each(w.ln.Accept, func(c net.Conn) {
		w.wg.Go(func() { w.serve(c) })
	})
}

// serve reads one connection of a member, in the life that it is of.
func (w *World) serve(c net.Conn) {
	defer c.Close()
	defer w.closing(c)()
	if greet(c, w.o.Secret, false) != nil {
		return
	}
	l, err := readLine(c)
	if err != nil {
		return
	}
	if s := w.await(l.life); s != nil && int(l.from) < len(s.view.Ranks) && s.begin(c) {
		defer s.done(c)
		if l.kind == blockLine {
			s.blocks(c, int(l.from))
		} else {
			s.messages(c, int(l.from))
		}
	}
}

// closing closes c when the world is closed, until the function that it returns is called.
func (w *World) closing(c net.Conn) func() {
	stop := make(chan struct{})
	go func() {
		select {
		case <-w.ctrl.quit:
			c.Close()
		case <-stop:
		}
	}()
	return func() { close(stop) }
}

// await waits until this member has entered a life, nil if it is past.
func (w *World) await(life uint32) *session {
	for {
		w.mu.Lock()
		changed, open, s := w.changed, w.open, w.session
		past := w.closed || w.over != nil || w.view.Life > life || w.gone >= life
		w.mu.Unlock()
		if past {
			return nil
		}
		if s != nil && s.view.Life == life {
			select {
			case <-open:
				return s
			case <-changed:
			}
			continue
		}
		<-changed
	}
}
