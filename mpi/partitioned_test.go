package mpi_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Both sides may have any number of parts. They become ready in any order, on several goroutines, and each arrives
// without the others.
func TestPartitioned(t *testing.T) {
	for _, x := range [][3]int{{1, 1, 12}, {4, 4, 12}, {6, 4, 12}, {4, 6, 12_000_0}, {12, 1, 12}, {1, 12, 240_000}, {3, 2, 0}} {
		t.Run(fmt.Sprint(x[0], " to ", x[1], " parts of ", x[2]), func(t *testing.T) {
			t.Parallel()
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				if c.Rank() == 0 {
					return sendParts(c, x[0], x[2])
				}
				return recvParts(c, x[1], x[2])
			})
		})
	}
}

func sendParts(c *mpi.Comm, parts, n int) error {
	buf := make([]int32, n)
	p, err := mpi.PsendInit(c, buf, parts, 1, 5)
	if err != nil {
		return err
	}
	for round := range 3 {
		r, err := p.Start()
		if err != nil {
			return err
		}
		var workers sync.WaitGroup
		errs := make([]error, parts)
		for i := range parts {
			workers.Go(func() {
				k := (i*7 + round) % parts
				if parts%7 == 0 {
					k = i
				}
				for j := k * n / parts; j < (k+1)*n/parts; j++ {
					buf[j] = int32(j + round)
				}
				errs[i] = p.Ready(k)
			})
		}
		workers.Wait()
		if err := all(errs...); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
	}
	return p.Free()
}

func recvParts(c *mpi.Comm, parts, n int) error {
	buf := make([]int32, n)
	p, err := mpi.PrecvInit(c, buf, parts, 0, 5)
	if err != nil {
		return err
	}
	for round := range 3 {
		clear(buf)
		r, err := p.Start()
		if err != nil {
			return err
		}
		for i := range parts {
			for here := false; !here; {
				if here, err = p.Arrived(i); err != nil {
					return err
				}
			}
			for j := i * n / parts; j < (i+1)*n/parts; j++ {
				if buf[j] != int32(j+round) {
					return fmt.Errorf("part %d of round %d has arrived, and element %d is %d", i, round, j, buf[j])
				}
			}
		}
		st, err := r.Wait()
		if err != nil || st.Source != 0 || st.Tag != 5 || st.Count != n {
			return fmt.Errorf("status %+v, %v", st, err)
		}
	}
	return p.Free()
}

// A part arrives although the others are not ready.
func TestPartAlone(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		buf := []int{0, 0, 0, 0}
		if c.Rank() == 1 { // the receive is started first
			p, err := mpi.PrecvInit(c, buf, 4, 0, 0)
			if err != nil {
				return err
			}
			r, err := p.Start()
			if err := all(err, mpi.Send(c, []int{1}, 0, 1)); err != nil {
				return err
			}
			for here := false; !here; {
				if here, err = p.Arrived(2); err != nil {
					return err
				}
			}
			if here, err := p.Arrived(2, 3); here || err != nil {
				return fmt.Errorf("part 3: %v, %v", here, err)
			}
			if err := mpi.Send(c, buf[2:3], 0, 1); err != nil {
				return err
			}
			_, err = r.Wait()
			return all(err, want("buf", buf, []int{1, 2, 3, 4}), p.Free())
		}
		if _, err := mpi.Recv(c, []int{0}, 1, 1); err != nil {
			return err
		}
		p, err := mpi.PsendInit(c, buf, 4, 1, 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		copy(buf, []int{1, 2, 3, 4})
		got := []int{0}
		if err := p.Ready(2); err != nil {
			return err
		}
		if _, err := mpi.Recv(c, got, 1, 1); err != nil {
			return err
		}
		if err := all(want("got", got, []int{3}), wantErr("twice", p.Ready(2), mpi.ErrRequest), wantErr("no part", p.Ready(4), mpi.ErrCount), p.Ready(0, 1, 3)); err != nil {
			return err
		}
		_, err = r.Wait()
		return all(err, p.Free())
	})
}

func TestPartitionedErrors(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		_, rank := mpi.PsendInit(c, []int{1}, 1, 2, 0)
		_, src := mpi.PrecvInit(c, []int{1}, 1, mpi.AnySource, 0)
		_, tag := mpi.PrecvInit(c, []int{1}, 1, 0, mpi.AnyTag)
		_, typ := mpi.PsendInit(c, []string{""}, 1, 0, 0)
		_, odd := mpi.PsendInit(c, []int{1, 2, 3}, 2, 0, 0)
		_, zero := mpi.PsendInit(c, []int{1}, 0, 0, 0)
		_, none := mpi.PsendInit[int](nil, nil, 1, 0, 0)
		var null *mpi.Partitioned
		_, start := null.Start()
		_, arrived := null.Arrived(0)
		if err := all(wantErr("rank", rank, mpi.ErrRank), wantErr("any source", src, mpi.ErrRank), wantErr("any tag", tag, mpi.ErrTag),
			wantErr("type", typ, mpi.ErrType), wantErr("parts", odd, mpi.ErrCount), wantErr("no parts", zero, mpi.ErrCount),
			wantErr("no communicator", none, mpi.ErrComm), wantErr("Start", start, mpi.ErrRequest), wantErr("Arrived", arrived, mpi.ErrRequest),
			wantErr("Ready", null.Ready(0), mpi.ErrRequest), null.Free()); err != nil {
			return err
		}
		peer := 1 - c.Rank()
		s, err := mpi.PsendInit(c, make([]int, 2), 2, peer, 3)
		r, err2 := mpi.PrecvInit(c, make([]int, 2), 2, peer, 3)
		if err := all(err, err2, wantErr("not started", s.Ready(0), mpi.ErrRequest)); err != nil {
			return err
		}
		_, wrong := s.Arrived(0)
		sr, err := s.Start()
		rr, err2 := r.Start()
		if err := all(err, err2, wantErr("a send", wrong, mpi.ErrRequest), wantErr("a receive", r.Ready(0), mpi.ErrRequest),
			wantErr("active", s.Free(), mpi.ErrRequest), s.Ready(0, 1)); err != nil {
			return err
		}
		_, err = mpi.Waitall([]mpi.Request{rr, sr})
		return all(err, s.Free(), r.Free(), wantErr("freed", r.Free(), mpi.ErrRequest), nobody(c))
	})
}

// A message of another length is an error on both sides, in each start, however long its parts are.
func TestPartsOfOtherLength(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			p, err := mpi.PrecvInit(c, make([]int, 4), 2, 0, 3)
			if err != nil {
				return err
			}
			err = wantErr("lengths", waited(p.Start()), mpi.ErrCount)
			_, again := p.Start()
			return all(err, wantErr("again", again, mpi.ErrCount), p.Free())
		}
		p, err := mpi.PsendInit(c, make([]int, 200_000), 2, 1, 3)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err == nil { // else the receiver was faster
			if err := p.Ready(0, 1); err != nil {
				return err
			}
			_, err = r.Wait()
		}
		return all(wantErr("the sender", err, mpi.ErrPoisoned), p.Free())
	})
}

// A rank may send parts to itself.
func TestPartsToSelf(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		out, in := []int{1, 2}, make([]int, 2)
		s, err := mpi.PsendInit(c, out, 2, 0, 0)
		r, err2 := mpi.PrecvInit(c, in, 1, 0, 0)
		if err := all(err, err2); err != nil {
			return err
		}
		a, err := s.Start()
		b, err2 := r.Start()
		if err := all(err, err2, s.Ready(1, 0)); err != nil {
			return err
		}
		_, err = mpi.Waitall([]mpi.Request{a, b})
		return all(err, want("in", in, out))
	})
}

// A partitioned message cannot be cancelled, not even where it is a single one.
func TestPartsAreNotCancelled(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		out, in := []int{1, 2}, make([]int, 2)
		s, err := mpi.PsendInit(c, out, 1, 0, 0)
		r, err2 := mpi.PrecvInit(c, in, 1, 0, 0)
		if err := all(err, err2); err != nil {
			return err
		}
		for round := range 3 {
			out[0] = round
			b, err := r.Start()
			if err := all(err, wantErr("Cancel", b.Cancel(), mpi.ErrRequest)); err != nil {
				return err
			}
			a, err := s.Start()
			if err := all(err, s.Ready(0)); err != nil {
				return err
			}
			_, err = mpi.Waitall([]mpi.Request{a, b})
			if err := all(err, want("in", in, out)); err != nil {
				return err
			}
		}
		return nil
	})
}

// nobody is a partitioned message with ProcNull.
func nobody(c *mpi.Comm) error {
	p, err := mpi.PrecvInit(c, make([]int, 2), 2, mpi.ProcNull, 0)
	if err != nil {
		return err
	}
	r, err := p.Start()
	here, err2 := p.Arrived(0)
	if !here || !r.Completed() {
		return fmt.Errorf("from nobody: %v, %v", here, err)
	}
	return all(err, err2, p.Free())
}
