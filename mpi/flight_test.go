package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func affines(rank, n int) []affine {
	p := make([]affine, n)
	for i := range p {
		p[i] = of(rank, i)
	}
	return p
}

// both are a call and its form that goes on while the program computes. Each gets its own buffers.
type both struct {
	name string
	call func(c *mpi.Comm, send, recv []affine) error
	form func(c *mpi.Comm, send, recv []affine) (mpi.Request, error)
	init func(c *mpi.Comm, send, recv []affine) (*mpi.Persistent, error)
	in   func(n, k int) int // lengths of the buffers, for blocks of k
	out  func(n, k int) int
	same bool // in place is allowed as the same slice twice
}

func one(_, k int) int   { return k }
func times(n, k int) int { return n * k }

// gaps are counts and displacements of blocks up to k long, with gaps.
func gaps(n, k int) (counts, displs []int) {
	for i := range n {
		counts, displs = append(counts, i%(k+1)), append(displs, i*k)
	}
	return counts, displs
}

// everyCollective returns all of them, with a root where there is one.
func everyCollective(k, root int) []both {
	type f = []affine
	type C = *mpi.Comm
	counts := func(c C) []int { n, _ := gaps(others(c), k); return n }
	displs := func(c C) []int { _, d := gaps(others(c), k); return d }
	even := func(c C) []int { return slices.Repeat([]int{k}, others(c)) }
	shares := func(c C, r f) []int { return slices.Repeat([]int{len(r)}, c.Size()) }
	mine := func(c C, p f) f { return p[:c.Rank()%(k+1)] }
	return []both{
		{"Barrier", func(c C, _, _ f) error { return mpi.Barrier(c) },
			func(c C, _, _ f) (mpi.Request, error) { return mpi.Ibarrier(c) },
			func(c C, _, _ f) (*mpi.Persistent, error) { return mpi.BarrierInit(c) }, one, one, false},
		{"Bcast", func(c C, _, r f) error { return mpi.Bcast(c, r, root) },
			func(c C, _, r f) (mpi.Request, error) { return mpi.Ibcast(c, r, root) },
			func(c C, _, r f) (*mpi.Persistent, error) { return mpi.BcastInit(c, r, root) }, one, one, false},
		{"Gather", func(c C, s, r f) error { return mpi.Gather(c, s, r, root) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Igather(c, s, r, root) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.GatherInit(c, s, r, root) }, one, times, false},
		{"Gatherv", func(c C, s, r f) error { return mpi.Gatherv(c, mine(c, s), r, counts(c), displs(c), root) },
			func(c C, s, r f) (mpi.Request, error) {
				return mpi.Igatherv(c, mine(c, s), r, counts(c), displs(c), root)
			},
			func(c C, s, r f) (*mpi.Persistent, error) {
				return mpi.GathervInit(c, mine(c, s), r, counts(c), displs(c), root)
			}, one, times, false},
		{"Scatter", func(c C, s, r f) error { return mpi.Scatter(c, s, r, root) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iscatter(c, s, r, root) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.ScatterInit(c, s, r, root) }, times, one, false},
		{"Scatterv", func(c C, s, r f) error { return mpi.Scatterv(c, s, counts(c), displs(c), mine(c, r), root) },
			func(c C, s, r f) (mpi.Request, error) {
				return mpi.Iscatterv(c, s, counts(c), displs(c), mine(c, r), root)
			},
			func(c C, s, r f) (*mpi.Persistent, error) {
				return mpi.ScattervInit(c, s, counts(c), displs(c), mine(c, r), root)
			}, times, one, false},
		{"Allgather", func(c C, s, r f) error { return mpi.Allgather(c, s, r) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iallgather(c, s, r) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.AllgatherInit(c, s, r) }, one, times, false},
		{"Allgatherv", func(c C, s, r f) error { return mpi.Allgatherv(c, mine(c, s), r, counts(c), displs(c)) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iallgatherv(c, mine(c, s), r, counts(c), displs(c)) },
			func(c C, s, r f) (*mpi.Persistent, error) {
				return mpi.AllgathervInit(c, mine(c, s), r, counts(c), displs(c))
			}, one, times, false},
		{"Alltoall", func(c C, s, r f) error { return mpi.Alltoall(c, s, r) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Ialltoall(c, s, r) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.AlltoallInit(c, s, r) }, times, times, true},
		{"Alltoallv", func(c C, s, r f) error { return mpi.Alltoallv(c, s, even(c), nil, r, even(c), nil) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Ialltoallv(c, s, even(c), nil, r, even(c), nil) },
			func(c C, s, r f) (*mpi.Persistent, error) {
				return mpi.AlltoallvInit(c, s, even(c), nil, r, even(c), nil)
			}, times, times, true},
		{"Reduce", func(c C, s, r f) error { return mpi.Reduce(c, s, r, composition, root) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Ireduce(c, s, r, composition, root) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.ReduceInit(c, s, r, composition, root) }, one, one, true},
		{"Allreduce", func(c C, s, r f) error { return mpi.Allreduce(c, s, r, composition) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iallreduce(c, s, r, composition) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.AllreduceInit(c, s, r, composition) }, one, one, true},
		{"ReduceScatterBlock", func(c C, s, r f) error { return mpi.ReduceScatterBlock(c, s, r, composition) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.IreduceScatterBlock(c, s, r, composition) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.ReduceScatterBlockInit(c, s, r, composition) }, times, one, false},
		{"ReduceScatter", func(c C, s, r f) error { return mpi.ReduceScatter(c, s, r, shares(c, r), composition) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.IreduceScatter(c, s, r, shares(c, r), composition) },
			func(c C, s, r f) (*mpi.Persistent, error) {
				return mpi.ReduceScatterInit(c, s, r, shares(c, r), composition)
			}, times, one, false},
		{"Scan", func(c C, s, r f) error { return mpi.Scan(c, s, r, composition) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iscan(c, s, r, composition) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.ScanInit(c, s, r, composition) }, one, one, true},
		{"Exscan", func(c C, s, r f) error { return mpi.Exscan(c, s, r, composition) },
			func(c C, s, r f) (mpi.Request, error) { return mpi.Iexscan(c, s, r, composition) },
			func(c C, s, r f) (*mpi.Persistent, error) { return mpi.ExscanInit(c, s, r, composition) }, one, one, true},
	}
}

// buffersOf are what a collective sends, and what it receives filled with something else.
func (x *both) buffersOf(c *mpi.Comm, k, seed int) (send, recv []affine) {
	n, me := others(c), c.WorldRank(c.Rank())
	if c.IsInter() && strings.HasPrefix(x.name, "ReduceScatter") { // both groups scatter as much
		n, k = c.Size(), n*k
	}
	return affines(me+seed, x.in(n, k)), affines(100+me+seed, x.out(n, k))
}

// others is how many ranks a rank exchanges blocks with.
func others(c *mpi.Comm) int {
	if c.IsInter() {
		return c.RemoteSize()
	}
	return c.Size()
}

// Every collective gives the same as the blocking call: all of them under way at once, with blocking calls between,
// and ended in another order.
func TestCollectivesInFlight(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		for _, k := range []int{0, 1, 700} {
			t.Run(fmt.Sprintf("%d ranks, %d elements", n, k), func(t *testing.T) {
				t.Parallel()
				mpitest.Run(t, n, func(c *mpi.Comm) error {
					return onComms(c, func(c *mpi.Comm) error { return inFlight(c, everyCollective(k, (c.Size()-1)/2), k) })
				})
			})
		}
	}
}

func inFlight(c *mpi.Comm, calls []both, k int) error {
	var rs []mpi.Request
	got := make([][]affine, len(calls))
	for i, x := range calls {
		send, recv := x.buffersOf(c, k, i)
		if x.same && i%2 == 0 {
			recv = send
		}
		r, err := x.form(c, send, recv)
		if err != nil {
			return err
		}
		rs, got[i] = append(rs, r), recv
	}
	for i := range calls { // from the last to the first, as far as they let one choose
		x := calls[len(calls)-1-i]
		send, recv := x.buffersOf(c, k, len(calls)-1-i)
		if x.same && (len(calls)-1-i)%2 == 0 {
			copy(recv, send)
			if x.name == "Exscan" || x.name == "Reduce" {
				copy(recv, send) // what is left as it is
			}
		}
		if err := x.call(c, send, recv); err != nil {
			return err
		}
		if _, err := rs[len(calls)-1-i].Wait(); err != nil {
			return err
		}
		if err := want("I"+x.name, got[len(calls)-1-i], recv); err != nil {
			return err
		}
	}
	return nil
}

// A rank that computes, and calls nothing, takes part all the same.
func TestProgressWhileComputing(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		mine, sum := values(70_001, c.Rank(), func(i int) int64 { return int64(i) }), make([]int64, 70_001)
		r, err := mpi.Iallreduce(c, mine, sum, mpi.Sum)
		if err != nil {
			return err
		}
		if c.Rank() != 0 {
			<-r.Done() // the others can only be done if rank 0's part is
			_, err = r.Wait()
			return all(err, mpi.Send(c, []byte{1}, 0, 0))
		}
		for !r.Completed() {
			runtime.Gosched()
		}
		_, err = r.Wait()
		for i := 1; i < c.Size() && err == nil; i++ {
			_, err = mpi.Recv(c, make([]byte, 1), i, 0)
		}
		return err
	})
}

// Nobody is in a call: all wait for a channel.
func TestDone(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		peer, from := (c.Rank()+1)%3, (c.Rank()+2)%3
		got := make([]int, 70_000)
		a, err := mpi.Irecv(c, got, from, 0)
		b, err2 := mpi.Isend(c, values(len(got), c.Rank(), func(i int) int { return i }), peer, 0)
		r, err3 := mpi.Iallreduce(c, got[:0], got[:0], mpi.Sum)
		d, err4 := mpi.Ibarrier(c)
		if err := all(err, err2, err3, err4); err != nil {
			return err
		}
		for _, x := range []mpi.Request{a, b, r, d} {
			<-x.Done()
			if !x.Completed() {
				return errors.New("its channel is closed, and it is not complete")
			}
		}
		rs := []mpi.Request{a, b, r, d}
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		<-rs[0].Done() // of an inactive one
		<-a.Done()     // of one that was ended
		return want("got", got, values(len(got), from, func(i int) int { return i }))
	})
}

// An operator of the program may call the library, and takes as long as it likes: others go on meanwhile.
func TestOperatorOutsideTheLock(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		peer := 1 - c.Rank()
		asks := mpi.OpFunc(func(dst, src []int) {
			if _, err := mpi.Sendrecv(d, src, peer, 7, dst, peer, 7); err != nil {
				panic(err)
			}
		}, true)
		got := make([]int, 1)
		r, err := mpi.Iallreduce(c, []int{c.Rank()}, got, asks)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		return all(err, d.Free())
	})
}

// An operator may make a call that another goroutine of its rank is in: nobody who is in a call does its work.
func TestOperatorDuringTheSameCall(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 2, func(c *mpi.Comm) error {
		peer, long := 1-c.Rank(), make([]int, 70_001)
		if err := mpi.Bsend(c, long, peer, 1); err != nil { // is looked at by every Bsend until it is received
			return err
		}
		var operated atomic.Bool
		r, err := mpi.Iallreduce(c, []int{1}, make([]int, 1), mpi.OpFunc(func(dst, src []int) {
			if err := mpi.Bsend(c, src, peer, 2); err != nil {
				panic(err)
			}
			operated.Store(true)
		}, true))
		if err != nil {
			return err
		}
		for self := c.Self(); !operated.Load(); {
			if err := all(mpi.Bsend(self, []int{0}, 0, 3), err1(mpi.Recv(self, []int{0}, 0, 3))); err != nil {
				return err
			}
		}
		_, err = r.Wait()
		return all(err, err1(mpi.Recv(c, long, peer, 1)), err1(mpi.Recv(c, []int{0}, peer, 2)))
	})
}

// An operator that ends its goroutine ends the call.
func TestOperatorExits(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		r, err := mpi.Iallreduce(c, []int{1}, make([]int, 1), mpi.OpFunc(func(dst, src []int) { runtime.Goexit() }, true))
		if err == nil { // else the other rank was faster
			_, err = r.Wait()
		}
		if err == nil {
			return errors.New("it has succeeded")
		}
		return nil
	})
}

// An operator that panics ends the call on all ranks.
func TestOperatorPanicsInFlight(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		r, err := mpi.Iallreduce(c, []int{1}, make([]int, 1), mpi.OpFunc(func(dst, src []int) { panic("no") }, true))
		if err == nil { // else another rank has panicked before this one came
			_, err = r.Wait()
		}
		if !errors.Is(err, mpi.ErrOp) && !errors.Is(err, mpi.ErrPoisoned) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

// The others learn of it even if that rank waits for them before it ends its request.
func TestOperatorPanicsFarFromWait(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		r, err := mpi.Ireduce(d, []int{1}, make([]int, 1), mpi.OpFunc(func(dst, src []int) { panic("no") }, true), 0)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			if _, err := mpi.Recv(c, make([]int, 1), 1, 0); err != nil {
				return err
			}
			_, err = r.Wait()
			return all(wantErr("the operator", err, mpi.ErrOp), d.Free())
		}
		if _, err := r.Wait(); err != nil && !errors.Is(err, mpi.ErrPoisoned) { // rank 1 has only sent
			return err
		}
		last, err := mpi.Iallreduce(d, []int{1}, make([]int, 1), mpi.Sum)
		if err == nil {
			_, err = last.Wait() // rank 0 does not come to this one
		}
		return all(wantErr("the others", err, mpi.ErrPoisoned), mpi.Send(c, []int{1}, 0, 0), d.Free())
	})
}

// Ranks that disagree are told so, on every rank.
func TestDisagreementInFlight(t *testing.T) {
	type C = *mpi.Comm
	for name, f := range map[string][2]func(c C) (mpi.Request, error){
		"root": {func(c C) (mpi.Request, error) { return mpi.Ibcast(c, make([]int, 1), 0) },
			func(c C) (mpi.Request, error) { return mpi.Ibcast(c, make([]int, 1), 1) }},
		"kind": {func(c C) (mpi.Request, error) { return mpi.Ibarrier(c) },
			func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, []int{1}, make([]int, 1), mpi.Sum) }},
		"length": {func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 2), make([]int, 2), mpi.Sum) },
			func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 1), mpi.Sum) }},
		"operator": {func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 1), mpi.Max) },
			func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 1), mpi.Sum) }},
		"wrong alone": {func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 2), mpi.Sum) },
			func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 1), mpi.Sum) }},
		"blocking": {func(c C) (mpi.Request, error) {
			return mpi.Request{}, mpi.Allreduce(c, make([]int, 1), make([]int, 1), mpi.Sum)
		},
			func(c C) (mpi.Request, error) { return mpi.Iallreduce(c, make([]int, 1), make([]int, 1), mpi.Sum) }},
		"form": {func(c C) (mpi.Request, error) {
			p, err := mpi.BarrierInit(c)
			if err != nil {
				return mpi.Request{}, err
			}
			return p.Start()
		}, func(c C) (mpi.Request, error) { return mpi.Ibarrier(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mpitest.Run(t, 3, func(c *mpi.Comm) error {
				who := 1
				if c.Rank() == 1 {
					who = 0
				}
				r, err := f[who](c)
				if err == nil {
					_, err = r.Wait()
				}
				if err == nil {
					err = mpi.Barrier(c) // a root that has only sent learns it now
				}
				for _, class := range []error{mpi.ErrMismatch, mpi.ErrPoisoned, mpi.ErrCount} {
					if errors.Is(err, class) {
						return nil
					}
				}
				return fmt.Errorf("got %v", err)
			})
		})
	}
}

// A communicator may be freed while its collectives go on.
func TestFreeInFlight(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		got := make([]int, 4)
		r, err := mpi.Iallgather(d, []int{c.Rank()}, got)
		if err := all(err, d.Free()); err != nil {
			return err
		}
		_, err = r.Wait()
		return all(err, want("got", got, []int{0, 1, 2, 3}))
	})
}

// After a deadline the request is still active, and goes on.
func TestWaitContext(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		var r mpi.Request
		var err error
		if c.Rank() == 0 {
			if r, err = mpi.Ibarrier(c); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			if _, err := r.WaitContext(ctx); !errors.Is(err, mpi.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Ibarrier") {
				return fmt.Errorf("got %v", err)
			}
			view := c.WithContext(ctx)
			x, err := mpi.Irecv(view, make([]byte, 1), 1, 9)
			if err != nil {
				return err
			}
			if _, err := x.WaitContext(t.Context()); !errors.Is(err, mpi.ErrDeadline) {
				return fmt.Errorf("of the view: %v", err)
			}
			err = mpi.Send(c, []byte{1}, 1, 0)
			if _, e := x.WaitContext(context.Background()); !errors.Is(e, mpi.ErrDeadline) && e != nil {
				return e
			}
			_ = x.Cancel()
			for !x.Completed() {
			}
			_, _, _ = x.Test()
			if err != nil {
				return err
			}
		} else {
			if _, err := mpi.Recv(c, make([]byte, 1), 0, 0); err != nil {
				return err
			}
			if r, err = mpi.Ibarrier(c); err != nil {
				return err
			}
		}
		var never context.Context
		_, err = r.WaitContext(never)
		return err
	})
}

func TestIsendrecv(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		right, left := (c.Rank()+1)%3, (c.Rank()+2)%3
		for _, k := range sizes {
			out, in := values(k, c.Rank(), func(i int) float64 { return float64(i) }), make([]float64, k)
			r, err := mpi.Isendrecv(c, out, right, 1, in, mpi.AnySource, 1)
			if err != nil {
				return err
			}
			st, err := r.Wait()
			if err == nil && (st.Source != left || st.Count != k || st.Tag != 1) {
				err = fmt.Errorf("status %+v", st)
			}
			if err := all(err, want("in", in, values(k, left, func(i int) float64 { return float64(i) }))); err != nil {
				return err
			}
		}
		self, err := mpi.Isendrecv(c, []int{5}, c.Rank(), 0, make([]int, 1), c.Rank(), 0)
		if err != nil {
			return err
		}
		st, err := self.Wait()
		if err != nil || st.Source != c.Rank() {
			return fmt.Errorf("to itself: %+v, %v", st, err)
		}
		long, err := mpi.Isendrecv(c, make([]int, 2), right, 0, make([]int, 1), left, 0)
		if err != nil {
			return err
		}
		if _, err := long.Wait(); !errors.Is(err, mpi.ErrTruncate) {
			return fmt.Errorf("too long: %v", err)
		}
		half, err := mpi.Isendrecv(c, []int{1}, right, 0, make([]int, 1), mpi.ProcNull, 0)
		if err != nil {
			return err
		}
		if _, err := mpi.Recv(c, make([]int, 1), left, 0); err != nil {
			return err
		}
		if st, err := half.Wait(); err != nil || st.Source != mpi.ProcNull {
			return fmt.Errorf("from nobody: %+v, %v", st, err)
		}
		none, err := mpi.Isendrecv(c, []int{1}, mpi.ProcNull, 0, make([]int, 1), mpi.ProcNull, 0)
		if err != nil || !none.Completed() {
			return fmt.Errorf("nobody at all: %v", err)
		}
		both := make([]int, 1)
		_, rerr := mpi.Isendrecv(c, []int{1}, 0, 0, make([]int, 1), 9, 0)
		_, serr := mpi.Isendrecv(c, []int{1}, 9, 0, make([]int, 1), 0, 0)
		_, berr := mpi.Isendrecv(c, both, 0, 0, both, 0, 0)
		_, terr := mpi.Isendrecv(c, both, 0, -5, make([]int, 1), 0, 0)
		return all(wantErr("source", rerr, mpi.ErrRank), wantErr("destination", serr, mpi.ErrRank),
			wantErr("one buffer", berr, mpi.ErrBuffer), wantErr("tag", terr, mpi.ErrTag))
	})
}

// A buffered send never waits, and what it has copied arrives, even if only Finalize is left.
func TestBsend(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		peer := 1 - c.Rank()
		for i, k := range sizes {
			p := values(k, c.Rank()+i, func(i int) int { return i })
			if err := mpi.Bsend(c, p, peer, i); err != nil {
				return err
			}
			r, err := mpi.Ibsend(c, p, peer, 10+i)
			if err != nil || !r.Completed() {
				return fmt.Errorf("Ibsend: %v", err)
			}
			clear(p)
		}
		for i, k := range sizes {
			for _, tag := range []int{i, 10 + i} {
				got := make([]int, k)
				_, err := mpi.Recv(c, got, peer, tag)
				if err := all(err, want("got", got, values(k, peer+i, func(i int) int { return i }))); err != nil {
					return err
				}
			}
		}
		return all(wantErr("rank", mpi.Bsend(c, []int{1}, 2, 0), mpi.ErrRank), wantErr("tag", mpi.Bsend(c, []int{1}, 0, -1), mpi.ErrTag),
			wantErr("type", mpi.Bsend(c, []string{""}, 0, 0), mpi.ErrType), wantErr("nil", mpi.Bsend[int](nil, nil, 0, 0), mpi.ErrComm),
			mpi.Bsend(c, []int{1}, mpi.ProcNull, 0))
	})
}

// A generalised request is waited for together with messages.
func TestNewRequest(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		a, complete, err := mpi.NewRequest(c)
		if err != nil {
			return err
		}
		b, err := mpi.Irecv(c, make([]byte, 1), 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		if a.Completed() {
			return errors.New("it is complete")
		}
		told := make(chan error)
		go func() {
			told <- all(mpi.Send(c, []byte{1}, 1-c.Rank(), 0), complete(mpi.Status{Source: 7, Tag: 8, Count: 9, Bytes: 72}, nil))
		}()
		st, err := mpi.Waitall([]mpi.Request{a, b})
		if err := all(err, <-told); err != nil {
			return err
		}
		if st[0] != (mpi.Status{Source: 7, Tag: 8, Count: 9, Bytes: 72}) {
			return fmt.Errorf("status %+v", st[0])
		}
		if err := complete(mpi.Status{}, nil); !errors.Is(err, mpi.ErrRequest) {
			return fmt.Errorf("again: %v", err)
		}
		x, complete, err := mpi.NewRequest(c)
		own := errors.New("own")
		if err := all(err, complete(mpi.Status{Count: mpi.Undefined}, own)); err != nil {
			return err
		}
		none, err := x.Wait()
		if none.Count != mpi.Undefined {
			return fmt.Errorf("status %+v", none)
		}
		_, _, nerr := mpi.NewRequest(nil)
		return all(wantErr("own error", err, own), wantErr("nil", nerr, mpi.ErrComm))
	})
}

// Collectives on communicators that overlap are under way at once, begun in another order on each rank.
func TestOverlappingCommunicators(t *testing.T) {
	const n = 4
	mpitest.Run(t, n, func(c *mpi.Comm) error {
		var mine []*mpi.Comm
		var members [][]int
		for first := range n { // pairs of neighbours in the ring
			pair := []int{first, (first + 1) % n}
			g := must(c.Group().Include(pair...))
			if d := must(c.Create(g)); d != nil {
				mine, members = append(mine, d), append(members, pair)
			}
		}
		mine, members = append(mine, must(c.Dup()), c), append(members, indexes(n), indexes(n))
		turn := c.Rank() % len(mine)
		rs, sums := make([]mpi.Request, 0, 2*len(mine)), make([][]int, len(mine))
		for k := range mine {
			i := (k + turn) % len(mine)
			if mine[i].Size() == n { // these are in the same order on all ranks
				continue
			}
			sums[i] = []int{0}
			rs = append(rs, must(mpi.Iallreduce(mine[i], []int{1 << c.Rank()}, sums[i], mpi.Sum)), must(mpi.Ibarrier(mine[i])))
		}
		for i := len(mine) - 2; i < len(mine); i++ {
			sums[i] = []int{0}
			rs = append(rs, must(mpi.Iallreduce(mine[i], []int{1 << c.Rank()}, sums[i], mpi.Sum)))
		}
		slices.Reverse(rs)
		if _, err := mpi.Waitall(rs); err != nil {
			return err
		}
		for i, d := range mine {
			sum := 0
			for _, r := range members[i] {
				sum += 1 << r
			}
			if err := want("sum", sums[i], []int{sum}); err != nil {
				return err
			}
			if d != c {
				if err := d.Free(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
