package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Messages that wait for their receives are found by tag and sender in any order, short ones and such as are only
// announced, and each is received once.
func TestManyUnexpected(t *testing.T) {
	const tags = 150
	length := func(tag int) int { return []int{0, 1, 40, 12_000}[tag%4] }
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		if c.Rank() > 0 {
			var rs []mpi.Request
			for tag := range tags {
				r, err := mpi.Isend(c, values(length(tag), c.Rank()*tags+tag, func(i int) int32 { return int32(i) }), 0, tag)
				if err != nil {
					return err
				}
				rs = append(rs, r)
			}
			_, err := mpi.Waitall(rs)
			return err
		}
		for src := 1; src < 3; src++ { // the last of each is here, and so are all before it
			if _, err := c.Probe(src, tags-1); err != nil {
				return err
			}
		}
		order := rand.New(rand.NewPCG(1, 2)).Perm(2 * tags)
		for _, k := range order {
			src, tag := 1+k/tags, k%tags
			got, st, err := mpi.RecvAlloc[int32](c, src, tag)
			if err := all(err, wantStatus(st, src, tag, length(tag)), want("message", got, values(length(tag), src*tags+tag, func(i int) int32 { return int32(i) }))); err != nil {
				return err
			}
		}
		_, ok, err := c.Iprobe(mpi.AnySource, mpi.AnyTag)
		return all(err, want("left", []bool{ok}, []bool{false}))
	})
}

// A receive from anybody takes its place in the row of receives: the first that matches gets the message.
func TestReceivesInOrder(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			if _, err := mpi.Recv(c, []int{}, 0, 99); err != nil { // all are posted
				return err
			}
			for i, tag := range []int{7, 8, 7, 7} {
				if err := mpi.SendValue(c, i, 0, tag); err != nil {
					return err
				}
			}
			return nil
		}
		got := make([]int, 4)
		var rs []mpi.Request
		for i, x := range [][2]int{{1, 7}, {mpi.AnySource, mpi.AnyTag}, {mpi.AnySource, 7}, {1, mpi.AnyTag}} {
			r, err := mpi.Irecv(c, got[i:i+1], x[0], x[1])
			if err != nil {
				return err
			}
			rs = append(rs, r)
		}
		_, err := mpi.Waitall(append(rs, must(mpi.Isend(c, []int{}, 1, 99))))
		return all(err, want("received", got, []int{0, 1, 2, 3}))
	})
}

// must is for calls in the arguments of others.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A receive that is cancelled leaves the row: the one behind it gets the message. The middle, the first and the last
// of them are tried, and one that takes anything.
func TestCancelOneOfMany(t *testing.T) {
	for gone := range 4 {
		mpitest.Run(t, 2, func(c *mpi.Comm) error {
			if c.Rank() == 1 {
				if _, err := mpi.Recv(c, []int{}, 0, 99); err != nil {
					return err
				}
				for i := range 3 {
					if err := mpi.SendValue(c, i+1, 0, 5); err != nil {
						return err
					}
				}
				return nil
			}
			got := make([]int, 4)
			rs := make([]mpi.Request, 4)
			for i := range rs {
				tag := 5
				if i == gone {
					tag = mpi.AnyTag
				}
				rs[i] = must(mpi.Irecv(c, got[i:i+1], 1, tag))
			}
			if err := all(rs[gone].Cancel(), mpi.Send(c, []int{}, 1, 99)); err != nil {
				return err
			}
			_, err := mpi.Waitall(rs)
			var which *mpi.RequestError
			if !errors.As(err, &which) || which.Index != gone {
				return fmt.Errorf("cancelled %d: %v", gone, err)
			}
			return all(wantErr("Waitall", err, mpi.ErrCanceled), want("received", slices.Delete(got, gone, gone+1), []int{1, 2, 3}))
		})
	}
}

// After a message that was cut, the next ones of the same sender arrive whole, whichever call received it.
func TestAfterTruncation(t *testing.T) {
	for _, n := range []int{3, 50_000} {
		mpitest.Run(t, 2, func(c *mpi.Comm) error {
			long := values(n, 1, func(i int) int { return i })
			calls := map[string]func() error{
				"Recv":         func() error { return errOf(mpi.Recv(c, make([]int, n-1), 0, 1)) },
				"Recv of none": func() error { return errOf(mpi.Recv[int](c, nil, 0, 1)) },
				"Irecv":        func() error { r := must(mpi.Irecv(c, make([]int, 1), 0, 1)); return errOf(r.Wait()) },
				"Mrecv":        func() error { m, _, err := c.Mprobe(0, 1); return all(err, errOf(mpi.Mrecv(m, make([]int, 2)))) },
				"Sendrecv":     func() error { return errOf(mpi.Sendrecv(c, long[:1], 1, 9, make([]int, 1), 0, 1)) },
				"RecvView": func() error {
					return errOf(mpi.RecvView(c, mpi.View[int]{Data: make([]int, 8), Layout: mpi.Vector(2, 1, 3)}, 0, 1))
				},
				"Irecv, cut 0": func() error { r := must(mpi.Irecv[int](c, nil, mpi.AnySource, mpi.AnyTag)); return errOf(r.Wait()) },
			}
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				if c.Rank() == 0 {
					if err := all(mpi.Send(c, long, 1, 1), mpi.Send(c, long, 1, 2)); err != nil {
						return err
					}
					continue
				}
				if err := wantErr(name, calls[name](), mpi.ErrTruncate); err != nil {
					return err
				}
				if name == "Sendrecv" { // what it has sent to this rank itself
					if _, err := mpi.Recv(c, make([]int, 1), 1, 9); err != nil {
						return err
					}
				}
				got := make([]int, n)
				_, err := mpi.Recv(c, got, 0, 2)
				if err := all(err, want("after "+name, got, long)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// A server that only polls hears all of its clients, and answers each before it has taken the next message.
func TestProbeLoop(t *testing.T) {
	const asks = 40
	mpitest.Run(t, 5, func(c *mpi.Comm) error {
		if c.Rank() > 0 {
			for i := range asks {
				question := values((i*c.Rank())%30, i, func(i int) int16 { return int16(i) })
				if err := mpi.Send(c, question, 0, i); err != nil {
					return err
				}
				answer, st, err := mpi.RecvAlloc[int16](c, 0, mpi.AnyTag)
				slices.Reverse(question)
				if err := all(err, wantStatus(st, 0, i, len(question)), want("answer", answer, question)); err != nil {
					return err
				}
			}
			return nil
		}
		for heard := 0; heard < 4*asks; {
			st, ok, err := c.Iprobe(mpi.AnySource, mpi.AnyTag)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			question := make([]int16, st.Count)
			if _, err := mpi.Recv(c, question, st.Source, st.Tag); err != nil {
				return err
			}
			slices.Reverse(question)
			if err := mpi.Send(c, question, st.Source, st.Tag); err != nil {
				return err
			}
			heard++
		}
		return nil
	})
}

// Thousands of requests are under way at once, and end in an order that the program chooses.
func TestThousandsOfRequests(t *testing.T) {
	const n = 4000
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		peer := 1 - c.Rank()
		out, in := values(n, c.Rank(), func(i int) int { return i }), make([]int, n)
		rs := make([]mpi.Request, 0, 2*n)
		for i := range n {
			rs = append(rs, must(mpi.Irecv(c, in[n-1-i:n-i], peer, n-1-i)))
		}
		for i := range n {
			rs = append(rs, must(mpi.Isend(c, out[i:i+1], peer, i)))
		}
		rand.New(rand.NewPCG(3, uint64(c.Rank()))).Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		for left := len(rs); left > 0; {
			done, _, err := mpi.Waitsome(rs)
			if err != nil {
				return err
			}
			left -= len(done)
		}
		return want("received", in, values(n, peer, func(i int) int { return i }))
	})
}

// Nobody is sent to and received from without waiting, on one side or both.
func TestHalfNull(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		up, down := c.Rank()+1, c.Rank()-1
		if up == c.Size() {
			up = mpi.ProcNull
		}
		if down < 0 {
			down = mpi.ProcNull
		}
		got, replaced := []int{-1}, []int{c.Rank()}
		st, err := mpi.Sendrecv(c, []int{c.Rank()}, up, 0, got, down, 0)
		rst, rerr := mpi.SendrecvReplace(c, replaced, up, 1, down, 1)
		if down == mpi.ProcNull {
			return all(err, rerr, want("untouched", append(got, replaced...), []int{-1, c.Rank()}), wantStatus(st, mpi.ProcNull, mpi.AnyTag, 0), wantStatus(rst, mpi.ProcNull, mpi.AnyTag, 0))
		}
		return all(err, rerr, want("received", append(got, replaced...), []int{down, down}))
	})
}

// Ranks that do not know who sends to them find out: each sends synchronously, receives what comes, enters a barrier when
// all it has sent was taken, and is done when the barrier is.
func TestSparseExchange(t *testing.T) {
	const n, rounds = 5, 4
	mpitest.Run(t, n, func(c *mpi.Comm) error {
		sends := func(from, to, round int) bool { return (7*from+3*to+round)%3 == 0 }
		for round := range rounds {
			var rs []mpi.Request
			heard := make([]bool, n)
			for to := range n {
				if sends(c.Rank(), to, round) {
					rs = append(rs, must(mpi.Issend(c, []int{c.Rank(), round}, to, round)))
				}
			}
			var barrier mpi.Request
			for begun, done := false, false; !done; {
				m, st, ok, err := c.Improbe(mpi.AnySource, round)
				if err != nil {
					return err
				}
				if ok {
					got := make([]int, 2)
					if err := all(errOf(mpi.Mrecv(m, got)), want("message", got, []int{st.Source, round}), want("heard before", []bool{heard[st.Source]}, []bool{false})); err != nil {
						return err
					}
					heard[st.Source] = true
				}
				if begun {
					_, done, err = barrier.Test()
				} else if _, taken, terr := mpi.Testall(rs); taken {
					begun, barrier = true, must(mpi.Ibarrier(c))
				} else {
					err = terr
				}
				if err != nil {
					return err
				}
			}
			if err := want("heard of", heard, values2(n, func(from int) bool { return sends(from, c.Rank(), round) })); err != nil {
				return err
			}
		}
		return nil
	})
}
