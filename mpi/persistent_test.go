package mpi_test

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Persistent messages of every kind, together with requests of other kinds, again and again.
func TestPersistentMessages(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		right, left := (c.Rank()+1)%3, (c.Rank()+2)%3
		const k = 70_001
		var ps []*mpi.Persistent
		out, in := make([][]int, 4), make([][]int, 4)
		for tag, init := range []func(*mpi.Comm, []int, int, int) (*mpi.Persistent, error){mpi.SendInit[int], mpi.SsendInit[int], mpi.BsendInit[int], mpi.RsendInit[int]} {
			out[tag], in[tag] = make([]int, k-tag), make([]int, k-tag)
			r, err := mpi.RecvInit(c, in[tag], left, tag)
			if err != nil {
				return err
			}
			s, err := init(c, out[tag], right, tag)
			if err != nil {
				return err
			}
			ps = append(ps, r, s)
		}
		for round := range 5 {
			for tag, p := range out {
				copy(p, values(len(p), c.Rank()+round+tag, func(i int) int { return i }))
			}
			rs := make([]mpi.Request, len(ps))
			if err := mpi.Startall(ps, rs); err != nil {
				return err
			}
			b, err := mpi.Ibarrier(c)
			if err != nil {
				return err
			}
			st, err := mpi.Waitall(append(rs, b))
			if err != nil {
				return err
			}
			for tag, p := range in {
				if st[2*tag].Source != left || st[2*tag].Count != len(p) {
					return fmt.Errorf("status %+v", st[2*tag])
				}
				if err := want("in", p, values(len(p), left+round+tag, func(i int) int { return i })); err != nil {
					return err
				}
			}
		}
		for _, p := range ps {
			if err := p.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

// A persistent collective gives each time what the blocking call gives, and those of one communicator may be started
// in another order on each rank.
func TestPersistentCollectives(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
			t.Parallel()
			mpitest.Run(t, n, func(c *mpi.Comm) error { return persistents(c, everyCollective(300, c.Size()-1), 300) })
		})
	}
}

func persistents(c *mpi.Comm, calls []both, k int) error {
	var ps []*mpi.Persistent
	send, recv := make([][]affine, len(calls)), make([][]affine, len(calls))
	for i, x := range calls {
		send[i], recv[i] = x.buffersOf(c, k, i)
		p, err := x.init(c, send[i], recv[i])
		if err != nil {
			return err
		}
		ps = append(ps, p)
	}
	for round := range 3 {
		rs := make([]mpi.Request, len(ps))
		for i := range ps {
			who := (i + c.Rank() + round) % len(ps)
			s, r := calls[who].buffersOf(c, k, who+round)
			copy(send[who], s)
			copy(recv[who], r)
			var err error
			if rs[who], err = ps[who].Start(); err != nil {
				return err
			}
			if _, err := ps[who].Start(); wantErr("started twice", err, mpi.ErrRequest) != nil {
				return err
			}
			if err := ps[who].Free(); wantErr("freed while active", err, mpi.ErrRequest) != nil {
				return err
			}
		}
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		for i, x := range calls {
			s, r := x.buffersOf(c, k, i+round)
			if err := all(x.call(c, s, r), want(x.name+"Init", recv[i], r)); err != nil {
				return err
			}
		}
	}
	for _, p := range ps {
		if err := p.Free(); err != nil {
			return err
		}
		_, err := p.Start()
		if err := all(wantErr("Start", err, mpi.ErrRequest), wantErr("Free", p.Free(), mpi.ErrRequest)); err != nil {
			return err
		}
	}
	return nil
}

func TestPersistentErrors(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		_, rank := mpi.SendInit(c, []int{1}, 2, 0)
		_, tag := mpi.RecvInit(c, []int{1}, 0, -7)
		_, typ := mpi.SsendInit(c, []string{""}, 0, 0)
		_, none := mpi.BsendInit[int](nil, nil, 0, 0)
		var p *mpi.Persistent
		_, null := p.Start()
		d, err := c.Dup()
		if err != nil {
			return err
		}
		x, err := mpi.SendInit(d, []int{1}, 1-c.Rank(), 0)
		if err := all(err, d.Free()); err != nil {
			return err
		}
		_, freed := x.Start()
		nobody, err := mpi.SendInit(c, []int{1}, mpi.ProcNull, 0)
		if err != nil {
			return err
		}
		r, err := nobody.Start()
		if err != nil || !r.Completed() {
			return fmt.Errorf("to nobody: %v", err)
		}
		return all(wantErr("rank", rank, mpi.ErrRank), wantErr("tag", tag, mpi.ErrTag), wantErr("type", typ, mpi.ErrType),
			wantErr("no communicator", none, mpi.ErrComm), wantErr("nil", null, mpi.ErrRequest), wantErr("freed", freed, mpi.ErrComm),
			wantErr("lengths", mpi.Startall([]*mpi.Persistent{nobody}, nil), mpi.ErrCount), p.Free(), x.Free())
	})
}

// A persistent receive from anybody takes what is there and what comes later, whoever sends it with whatever tag.
func TestPersistentFromAnybody(t *testing.T) {
	const rounds = 3
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		if c.Rank() > 0 {
			for i := range rounds {
				if err := all(mpi.SendValue(c, 10*i+c.Rank(), 0, i), mpi.Barrier(c)); err != nil {
					return err
				}
			}
			return nil
		}
		in := make([]int, 1)
		p, err := mpi.RecvInit(c, in, mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		for i := range rounds {
			heard := 0
			for k := range 2 {
				if i > 0 && k == 0 { // it is there before the start
					if _, err := c.Probe(mpi.AnySource, mpi.AnyTag); err != nil {
						return err
					}
				}
				st, err := must(p.Start()).Wait()
				if err := all(err, wantStatus(st, in[0]%10, i, 1)); err != nil {
					return err
				}
				heard += st.Source
			}
			if err := all(want("senders", []int{heard}, []int{1 + 2}), mpi.Barrier(c)); err != nil {
				return err
			}
		}
		return p.Free()
	})
}

// What was started goes on when its communicator is freed; then it cannot be started again. A receive that was cancelled
// can.
func TestPersistentOfFreed(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		in := []int{0}
		p := must(mpi.RecvInit(d, in, 1-c.Rank(), 0))
		gone := must(p.Start())
		if err := gone.Cancel(); err != nil {
			return err
		}
		_, cancelled := gone.Wait()
		r := must(p.Start())
		if err := all(wantErr("cancelled", cancelled, mpi.ErrCanceled), mpi.Barrier(d), mpi.SendValue(d, 7+c.Rank(), 1-c.Rank(), 0), d.Free()); err != nil {
			return err
		}
		_, err = r.Wait()
		_, again := p.Start()
		return all(err, want("received", in, []int{8 - c.Rank()}), wantErr("Start", again, mpi.ErrComm), p.Free())
	})
}
