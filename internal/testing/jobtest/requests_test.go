package jobtest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestRequestsGoOn restarts a job in which every kind of request is under way: collectives of which one rank has
// not begun its part, also among neighbours and between groups, messages of views, persistent messages started and idle, partitioned ones half ready, generalised requests,
// buffered sends, an operator of the program in the middle of its work.
func TestRequestsGoOn(t *testing.T) {
	for i, route := range routes {
		if testing.Short() && i%3 > 0 {
			continue
		}
		t.Run(route[0]+" to "+route[1], func(t *testing.T) {
			opt := jobtest.Options{Dir: t.TempDir(), RPI: list(route[0]), Asked: i%2 == 1}
			if several(route[0]) {
				opt.Nodes = []int{0, 1, 0}
			}
			c := jobtest.New(3, opt)
			x := &underWay{begun: make(chan int, 3), release: make(chan struct{}), inside: make(chan struct{}, 16), operate: make(chan struct{})}
			wait := ranks(c, x.run)
			for range 3 {
				<-x.begun
			}
			<-x.inside // an operator works
			for i := range 2 {
				if err := c.Revive(list(route[1])...); err != nil {
					t.Fatal(err)
				}
				if err := c.Migrate(jobtest.Moves{Ranks: []int{i}, Failing: []int{5}[:i]}, list(route[1])...); err != nil {
					t.Fatal(err)
				}
			}
			close(x.operate)
			close(x.release)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
		})
	}
}

// underWay is the program of TestRequestsGoOn.
type underWay struct {
	begun   chan int
	release chan struct{}
	inside  chan struct{}
	operate chan struct{}
}

const longMessage = 200_001

func (x *underWay) run(w *mpi.Comm) error {
	me := w.Rank()
	if w.Size() == 1 {
		return nil
	}
	right, left := (me+1)%3, (me+2)%3
	f := &fleet{}
	ring, err := w.Cart([]int{3}, []bool{true}, false)
	if err != nil {
		return err
	}
	across, err := between(w)
	if err != nil {
		return err
	}
	field := message(3*longMessage, 0)
	copy(field[longMessage:], message(longMessage, me))
	halo, err := mpi.NewHalo(ring, field, []int{len(field)}, longMessage, false)
	if err != nil {
		return err
	}
	turned := make([]int32, 2)
	turn, err := mpi.NeighborAlltoallInit(ring, message(2, me), turned)
	if err != nil {
		return err
	}
	crossed := make(chan error, 1)
	// All begin these, and rank 2 only after the restarts: then the others' are half done.
	collectives := func() error {
		for _, n := range []int{3, longMessage} {
			send, sum := message(n, me), make([]int32, n)
			f.add(mpi.Iallreduce(w, send, sum, mpi.Sum))
			f.after(func() error { return summed(sum) })
			all := make([]int32, 3*n)
			f.add(mpi.Iallgather(w, send, all))
			f.after(func() error { return errors.Join(expect(all[:n], 0), expect(all[n:2*n], 1), expect(all[2*n:], 2)) })
			got := message(n, 7+me)
			f.add(mpi.Ibcast(w, got, 2))
			f.after(func() error { return expect(got, 9) })
			top := make([]int32, n)
			f.add(mpi.Ireduce(w, send, top, mpi.Sum, 0))
			if me == 0 {
				f.after(func() error { return summed(top) })
			}
			around := make([]int32, 2*n)
			f.add(mpi.IneighborAllgather(ring, send, around))
			f.after(func() error { return errors.Join(expect(around[:n], left), expect(around[n:], right)) })
		}
		f.add(halo.Start())
		f.after(func() error {
			return errors.Join(expect(field[:longMessage], left), expect(field[2*longMessage:], right))
		})
		theirs := make([]int32, longMessage)
		f.add(mpi.Iallreduce(across, message(longMessage, me), theirs, mpi.Max))
		f.after(func() error { return expect(theirs, []int{2, 2, 1}[me]) })
		go func() { crossed <- crosses(across, me) }()
		f.add(mpi.Ibarrier(w))
		return f.err
	}
	side, err := w.Dup()
	if err != nil {
		return err
	}
	if me != 2 {
		if err := collectives(); err != nil {
			return err
		}
	}
	// Messages: the receives are under way, the sends come afterwards, and some the other way round.
	in, out := make([]int32, longMessage), message(longMessage, me)
	recv, err := mpi.RecvInit(w, in, left, 1)
	send, err2 := mpi.SendInit(w, out, right, 1)
	total := make([]int32, 4)
	idle, err3 := mpi.AllreduceInit(side, out[:4], total, mpi.Sum)
	column := mpi.Vector(longMessage, 1, 2)
	strided := mpi.View[int32]{Data: make([]int32, 2*longMessage), Layout: column}
	columns, err4 := mpi.SendViewInit(w, mpi.View[int32]{Data: spread(out), Layout: column}, right, 5)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	f.add(mpi.IrecvView(w, strided, left, 5))
	f.after(func() error {
		got := make([]int32, longMessage)
		_, err := strided.Pack(got)
		return errors.Join(err, expect(got, left))
	})
	f.add(recv.Start())
	f.after(func() error { return expect(in, left) })
	pin, pout := make([]int32, 3*longMessage), message(3*longMessage, me)
	ps, err := mpi.PsendInit(w, pout, 3, right, 2)
	pr, err2 := mpi.PrecvInit(w, pin, 1, left, 2)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	f.add(ps.Start())
	if me != 1 {
		f.add(pr.Start())
	}
	both := make([]int32, longMessage)
	if me != 0 {
		f.add(mpi.Isendrecv(w, out, right, 3, both, mpi.AnySource, 3))
	}
	own, complete, err := mpi.NewRequest(w)
	if err := errors.Join(err, ps.Ready(1), mpi.Bsend(w, out, right, 4)); err != nil {
		return err
	}
	f.add(own, nil)
	closed := own.Done()
	if f.err != nil {
		return f.err
	}

	// From here on any caller of the engine may have to do the operator's work.
	operated := make(chan error, 1)
	go func() { operated <- x.operates(side, total) }()
	x.begun <- me
	<-x.release
	if err := errors.Join(<-operated, complete(mpi.Status{Count: me}, nil)); err != nil {
		return err
	}
	if me == 2 {
		if err := collectives(); err != nil {
			return err
		}
	}
	f.add(send.Start())
	f.add(columns.Start())
	if me == 1 {
		f.add(pr.Start())
	}
	f.after(func() error { return expect(pin, left) })
	if me == 0 {
		f.add(mpi.Isendrecv(w, out, right, 3, both, mpi.AnySource, 3))
	}
	f.after(func() error { return expect(both, left) })
	copied := make([]int32, longMessage)
	f.add(mpi.Irecv(w, copied, left, 4))
	f.after(func() error { return expect(copied, left) })
	if err := errors.Join(f.err, ps.Ready(2), ps.Ready(0)); err != nil {
		return err
	}
	if _, err := mpi.Waitall(f.rs); err != nil {
		return err
	}
	<-closed
	for _, check := range f.checks {
		if err := check(); err != nil {
			return err
		}
	}
	r, err := idle.Start()
	r2, err2 := turn.Start()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if _, err := mpi.Waitall([]mpi.Request{r, r2}); err != nil {
		return err
	}
	if err := errors.Join(<-crossed, expect(turned[:1], left+31), expect(turned[1:], right)); err != nil {
		return err
	}
	return errors.Join(summed(total), turn.Free(), columns.Free(), across.Free(), idle.Free(), send.Free(), recv.Free(), ps.Free(), pr.Free(), side.Free())
}

// between is an intercommunicator of ranks 0 and 1, and rank 2.
func between(w *mpi.Comm) (*mpi.Comm, error) {
	group, err := w.Split(w.Rank()/2, 0)
	if err != nil {
		return nil, err
	}
	x, err := mpi.IntercommCreate(group, 0, w, 2-w.Rank()/2*2, 9)
	return x, errors.Join(err, group.Free())
}

// crosses sums up what the ranks of the other group have, and hears all of them.
func crosses(x *mpi.Comm, me int) error {
	sum, all := make([]int32, longMessage), make([]int32, x.RemoteSize()*longMessage)
	if err := errors.Join(mpi.Allreduce(x, message(longMessage, me), sum, mpi.Max), mpi.Allgather(x, message(longMessage, me), all)); err != nil {
		return err
	}
	last := []int{2, 2, 1}[me]
	return errors.Join(expect(sum, last), expect(all[len(all)-longMessage:], last))
}

// spread puts a gap after each element.
func spread(p []int32) []int32 {
	q := make([]int32, 2*len(p))
	for i, x := range p {
		q[2*i] = x
	}
	return q
}

// operates makes a reduction whose operator stands still until the restarts are over.
func (x *underWay) operates(c *mpi.Comm, total []int32) error {
	r, err := mpi.Iallreduce(c, message(4, c.Rank()), total, mpi.OpFunc(func(dst, src []int32) {
		x.inside <- struct{}{}
		<-x.operate
		for i := range dst {
			dst[i] += src[i]
		}
	}, true))
	if err != nil {
		return err
	}
	if _, err := r.Wait(); err != nil {
		return err
	}
	return summed(total)
}

// summed checks a sum over three ranks of message(n, rank).
func summed(p []int32) error {
	for i := range p {
		if p[i] != int32(3*i*31+3) {
			return fmt.Errorf("sum %d is %d", i, p[i])
		}
	}
	return nil
}

// fleet are requests and what holds when they are complete.
type fleet struct {
	rs     []mpi.Request
	checks []func() error
	err    error
}

func (f *fleet) add(r mpi.Request, err error) {
	f.rs, f.err = append(f.rs, r), errors.Join(f.err, err)
}

func (f *fleet) after(check func() error) { f.checks = append(f.checks, check) }

// TestRequestsAtRandomMoments restarts a job that has collectives under way all the time, from transport to transport.
func TestRequestsAtRandomMoments(t *testing.T) {
	c := jobtest.New(4, jobtest.Options{Dir: t.TempDir(), RPI: []string{"mem"}})
	restarts := make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error { return always(w, restarts) })
	for i := range 12 {
		if err := c.Revive([]string{"tcp", "shm", "mem"}[i%3]); err != nil {
			t.Fatal(err)
		}
	}
	close(restarts)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	c.Stop()
}

// always has five collectives under way until the restarts are over, which all ranks learn alike.
func always(w *mpi.Comm, over chan struct{}) error {
	n := []int{1, 700, 40_000}
	stop := make([]int32, 1)
	sum := make([]int32, 40_000)
	p, err := mpi.AllreduceInit(w, make([]int32, 40_000), sum, mpi.Max)
	if err != nil {
		return err
	}
	for round := 0; stop[0] == 0; round++ {
		f := &fleet{}
		k := n[round%3]
		send, a, b, all := message(k, w.Rank()+round), make([]int32, k), make([]int32, k), make([]int32, 4*k)
		f.add(mpi.Iallreduce(w, send, a, mpi.Max))
		f.add(p.Start())
		f.add(mpi.Iallgather(w, send, all))
		f.add(mpi.Iscan(w, send, b, mpi.Max))
		mine := []int32{0}
		select {
		case <-over:
			mine[0] = 1
		default:
		}
		f.add(mpi.Iallreduce(w, mine, stop, mpi.Max))
		if f.err != nil {
			return f.err
		}
		if _, err := mpi.Waitall(f.rs); err != nil {
			return err
		}
		if err := errors.Join(expect(a, 3+round), expect(b, w.Rank()+round), expect(all[3*k:], 3+round), expect(all[:k], round)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return p.Free()
}

// A portable image is refused while a request is active, by name.
func TestRequestsAtPoint(t *testing.T) {
	for name, begin := range map[string]func(*mpi.Comm) (mpi.Request, error){
		"Iallreduce(call 1) on world": func(w *mpi.Comm) (mpi.Request, error) {
			return mpi.Iallreduce(w, []int{1}, make([]int, 1), mpi.Sum)
		},
		"Isendrecv(destination 1, source 1) on world": func(w *mpi.Comm) (mpi.Request, error) {
			return mpi.Isendrecv(w, []int{1}, 1, 0, make([]int, 1), 1, 0)
		},
		"generalised request": func(w *mpi.Comm) (mpi.Request, error) {
			r, _, err := mpi.NewRequest(w)
			return r, err
		},
		"PrecvInit(source 1, tag 0, 1 parts) on world": func(w *mpi.Comm) (mpi.Request, error) {
			p, err := mpi.PrecvInit(w, []int{1}, 1, 1, 0)
			if err != nil {
				return mpi.Request{}, err
			}
			return p.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := jobtest.New(2, jobtest.Options{Dir: t.TempDir()})
			defer c.Stop()
			looked := make(chan struct{})
			defer close(looked)
			w := ranks(c, func(w *mpi.Comm) error {
				if w.Rank() != 0 {
					<-looked
				} else if _, err := begin(w); err != nil {
					return err
				}
				return errPoint
			})
			if err := w(); !errors.Is(err, errPoint) {
				t.Fatal(err)
			}
			all := strings.Join(c.Jobs[0].Engine.AtPoint(), "; ")
			if all != name {
				t.Errorf("at the Point stands %q", all)
			}
		})
	}
}

var errPoint = errors.New("here is the Point")
