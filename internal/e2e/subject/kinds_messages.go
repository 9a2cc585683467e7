package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/mpi"
)

// striped is a view of every other pair of words.
func striped(p []uint64) mpi.View[uint64] {
	return mpi.View[uint64]{Data: p, Layout: mpi.Vector(len(p)/4, 2, 4)}
}

// between begins an Iallreduce and a receive on an intercommunicator of rank 0 and the others.
func between(c *mpi.Comm) (func() error, error) {
	me := c.Rank()
	local, err := c.Split(min(me, 1), me)
	if err != nil {
		return nil, err
	}
	x, err := mpi.IntercommCreate(local, 0, c, 1-min(me, 1), 9)
	if err != nil {
		return nil, err
	}
	mine, sum, want, in := noise(middling, uint64(me)), make([]uint64, middling), make([]uint64, middling), make([]uint64, middling)
	rs := make([]mpi.Request, 2)
	if rs[0], err = mpi.Irecv(x, in, 0, 4); err != nil {
		return nil, err
	}
	if me != 0 {
		rs[1], err = mpi.Iallreduce(x, mine, sum, mpi.Sum)
	}
	return func() (err error) {
		if me == 0 {
			if rs[1], err = mpi.Iallreduce(x, mine, sum, mpi.Sum); err != nil {
				return err
			}
		}
		for dst := 0; me < 2 && dst < x.RemoteSize(); dst++ {
			if err := mpi.Send(x, mine, dst, 4); err != nil {
				return err
			}
		}
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		if err := errors.Join(same(in, uint64(1-min(me, 1))), mpi.Allreduce(x, mine, want, mpi.Sum)); err != nil {
			return err
		}
		if !slices.Equal(sum, want) {
			return errors.New("an Iallreduce between groups has another result than an Allreduce")
		}
		return errors.Join(x.Free(), local.Free())
	}, err
}

// bordered begins the exchange of a halo on all ranks but 0.
func bordered(c *mpi.Comm) (func() error, error) {
	grid, err := c.Cart([]int{c.Size(), 1}, []bool{true, true}, false)
	if err != nil {
		return nil, err
	}
	const edge = 130
	field, want := noise(edge*edge, uint64(c.Rank())), noise(edge*edge, uint64(c.Rank()))
	halo, err := mpi.NewHalo(grid, field, []int{edge, edge}, 1, true)
	if err != nil {
		return nil, err
	}
	whole, err := mpi.NewHalo(grid, want, []int{edge, edge}, 1, true)
	if err != nil {
		return nil, err
	}
	var r mpi.Request
	if c.Rank() != 0 {
		r, err = halo.Start()
	}
	return func() (err error) {
		if c.Rank() == 0 {
			if r, err = halo.Start(); err != nil {
				return err
			}
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		if err := whole.Exchange(); err != nil {
			return err
		}
		if !slices.Equal(field, want) {
			return errors.New("a halo that was begun is not the one that Exchange brings")
		}
		return grid.Free()
	}, err
}

// around are the next rank and the one before.
func around(c *mpi.Comm) (next, before int) {
	n := c.Size()
	return (c.Rank() + 1) % n, (c.Rank() + n - 1) % n
}

// posted begins receives of all kinds, to which nothing was sent.
func posted(c *mpi.Comm) (func() error, error) {
	next, before := around(c)
	const first = 100 // tag
	bufs := make([][]uint64, 6)
	for i := range bufs {
		bufs[i] = make([]uint64, middling)
	}
	var persistent []*mpi.Persistent
	start := func(p *mpi.Persistent, err error) (mpi.Request, error) {
		if err != nil {
			return mpi.Request{}, err
		}
		persistent = append(persistent, p)
		return p.Start()
	}
	rs := make([]mpi.Request, len(bufs))
	var errs [6]error
	rs[0], errs[0] = mpi.Irecv(c, bufs[0], before, first)
	rs[1], errs[1] = mpi.IrecvView(c, striped(bufs[1]), before, first+1)
	rs[2], errs[2] = start(mpi.RecvInit(c, bufs[2], before, first+2))
	rs[3], errs[3] = start(mpi.RecvViewInit(c, striped(bufs[3]), before, first+3))
	rs[4], errs[4] = mpi.Isendrecv(c, noise(middling, 4), next, first-1, bufs[4], before, first+4)
	rs[5], errs[5] = mpi.Irecv(c, bufs[5], mpi.AnySource, first+5)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	told := rs[5].Done() // somebody waits for a channel
	return func() error {
		for i := range bufs {
			p := noise(middling, uint64(i))
			if i == 1 || i == 3 {
				p = p[:middling/2]
			}
			if err := mpi.Send(c, p, next, first+i); err != nil {
				return err
			}
		}
		in := make([]uint64, middling)
		if _, err := mpi.Recv(c, in, before, first-1); err != nil { // what Isendrecv has sent
			return err
		}
		<-told
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		for i, p := range bufs {
			if i == 1 || i == 3 {
				packed := make([]uint64, middling/2)
				if _, err := striped(p).Pack(packed); err != nil {
					return err
				}
				p = packed
			}
			if err := same(p, uint64(i)); err != nil {
				return fmt.Errorf("receive %d: %w", i, err)
			}
		}
		for _, p := range persistent {
			if err := p.Free(); err != nil {
				return err
			}
		}
		return same(in, 4)
	}, nil
}

// sent begins sends of all kinds, which nobody receives yet.
func sent(c *mpi.Comm) (func() error, error) {
	next, before := around(c)
	const first = 200 // tag
	var rs []mpi.Request
	var persistent []*mpi.Persistent
	p, v := noise(middling, 7), striped(noise(middling, 7))
	views := []bool{}
	add := func(view bool) func(mpi.Request, error) error {
		return func(r mpi.Request, err error) error {
			rs, views = append(rs, r), append(views, view)
			return err
		}
	}
	start := func(view bool) func(*mpi.Persistent, error) error {
		return func(x *mpi.Persistent, err error) error {
			if err != nil {
				return err
			}
			persistent = append(persistent, x)
			return add(view)(x.Start())
		}
	}
	plain, spread, again, spreadAgain := add(false), add(true), start(false), start(true)
	err := errors.Join(plain(mpi.Isend(c, p, next, first)), plain(mpi.Issend(c, p, next, first+1)), plain(mpi.Ibsend(c, p, next, first+2)),
		spread(mpi.IsendView(c, v, next, first+3)), spread(mpi.IssendView(c, v, next, first+4)),
		again(mpi.SendInit(c, p, next, first+5)), again(mpi.SsendInit(c, p, next, first+6)), again(mpi.RsendInit(c, p, next, first+7)), again(mpi.BsendInit(c, p, next, first+8)),
		spreadAgain(mpi.SendViewInit(c, v, next, first+9)), spreadAgain(mpi.SsendViewInit(c, v, next, first+10)))
	return func() error {
		packed := make([]uint64, middling/2)
		if _, err := v.Pack(packed); err != nil {
			return err
		}
		for i, view := range views {
			want := p
			if view {
				want = packed
			}
			in := make([]uint64, len(want))
			if _, err := mpi.Recv(c, in, before, first+i); err != nil {
				return err
			}
			if !slices.Equal(in, want) {
				return fmt.Errorf("send %d has brought something else", i)
			}
		}
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		for _, x := range persistent {
			if err := x.Free(); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// inParts starts a partitioned message of which half of the parts are ready, and makes one that stays idle.
func inParts(c *mpi.Comm) (func() error, error) {
	next, before := around(c)
	in := [2][]uint64{make([]uint64, middling), make([]uint64, middling)}
	var send, recv [2]*mpi.Partitioned
	var rs [2]mpi.Request
	for i := range send {
		var err1, err2 error
		send[i], err1 = mpi.PsendInit(c, noise(middling, uint64(i)), 8, next, 300+i)
		recv[i], err2 = mpi.PrecvInit(c, in[i], 4, before, 300+i)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
	}
	start := func(i int) (err error) {
		if rs[0], err = send[i].Start(); err == nil {
			rs[1], err = recv[i].Start()
		}
		return err
	}
	if err := start(0); err != nil {
		return nil, err
	}
	return func() error {
		for i := range send {
			if i == 1 {
				if err := errors.Join(start(1), send[1].Ready(0, 1, 2, 3)); err != nil {
					return err
				}
			}
			if err := send[i].Ready(4, 5, 6, 7); err != nil {
				return err
			}
			if _, err := mpi.Waitall(rs[:]); err != nil {
				return err
			}
			if err := errors.Join(same(in[i], uint64(i)), send[i].Free(), recv[i].Free()); err != nil {
				return err
			}
		}
		return nil
	}, send[0].Ready(0, 1, 2, 3)
}

// pledged lets a goroutine wait for a request that the program completes itself.
func pledged(c *mpi.Comm) (func() error, error) {
	r, complete, err := mpi.NewRequest(c)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		status, err := r.Wait()
		if err == nil && status.Count != 7 {
			err = fmt.Errorf("a request of the program's own has the status %+v", status)
		}
		ended <- err
	}()
	return func() error { return errors.Join(complete(mpi.Status{Count: 7}, nil), <-ended) }, nil
}

var label = mpi.NewKey(func(_ *mpi.Comm, v string) (string, bool) { return v + " of it", true }, nil)

// values makes what a program makes once and uses again.
func values(c *mpi.Comm) (func() error, error) {
	next, before := around(c)
	d, err := c.DupWithInfo(mpi.Info{"coll.bcast": "chain@64k"})
	if err != nil {
		return nil, err
	}
	others, err1 := c.Group().Exclude(0)
	in := make([]uint64, small)
	send, err2 := mpi.SendInit(d, noise(small, 3), next, 1)
	recv, err3 := mpi.RecvInit(d, in, before, 1)
	if err := errors.Join(err1, err2, err3, d.SetName("a duplicate"), label.Set(d, "a label")); err != nil {
		return nil, err
	}
	exchange := func() error {
		clear(in)
		rs := make([]mpi.Request, 2)
		if err := mpi.Startall([]*mpi.Persistent{recv, send}, rs); err != nil {
			return err
		}
		_, err := mpi.Waitall(rs)
		return errors.Join(err, same(in, 3))
	}
	return func() error {
		e, err := d.Dup()
		if err != nil {
			return err
		}
		text, ok := label.Get(e)
		if others.Size() != c.Size()-1 || d.Name() != "a duplicate" || d.Hints()["coll.bcast"] != "chain@64k" || !ok || text != "a label of it" {
			return fmt.Errorf("a group of %d, the communicator %q with %v and the label %q", others.Size(), d.Name(), d.Hints(), text)
		}
		return errors.Join(exchange(), e.Free(), send.Free(), recv.Free(), d.Free())
	}, exchange()
}
