package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// Elements of any layout go to any other of the same length while the program computes, by requests made anew and by persistent
// ones, and touch nothing else.
func TestViewsInFlight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from, to := drawLayouts(rt)
		again := rapid.Bool().Draw(rt, "persistent")
		mpitest.Run(drawn{t, rt}, 2, func(c *mpi.Comm) error {
			if again {
				return viewsAgain(c, from, to)
			}
			return viewsOnce(c, from, to)
		})
	})
}

// drawLayouts draws two layouts of as many elements, which refer to the same memory or to a part of it.
func drawLayouts(t *rapid.T) (from, to mpi.Layout) {
	k := rapid.SampledFrom([]int{1, 2, 7, 500, 20_000}).Draw(t, "blocks")
	length := rapid.IntRange(1, 3).Draw(t, "length")
	draw := func(what string) mpi.Layout {
		if rapid.Bool().Draw(t, what+" in a row") {
			return mpi.Contiguous(k * length).Shift(3)
		}
		return mpi.Vector(k, length, length+rapid.IntRange(0, 4).Draw(t, what+" gap")).Shift(rapid.IntRange(0, 3).Draw(t, what+" begin"))
	}
	return draw("from"), draw("to")
}

func viewsOnce(c *mpi.Comm, from, to mpi.Layout) error {
	send := []func(*mpi.Comm, mpi.View[int32], int, int) (mpi.Request, error){mpi.IsendView[int32], mpi.IssendView[int32]}
	var rs []mpi.Request
	var got []mpi.View[int32]
	out := mpi.View[int32]{values(roomOf(from), c.Rank(), func(i int) int32 { return int32(i) }), from}
	for tag, send := range send {
		in := mpi.View[int32]{make([]int32, roomOf(to)), to}
		r, err := mpi.IrecvView(c, in, 1-c.Rank(), tag)
		s, serr := send(c, out, 1-c.Rank(), tag)
		if err := all(err, serr); err != nil {
			return err
		}
		rs, got = append(rs, r, s), append(got, in)
	}
	st, err := mpi.Waitall(rs)
	if err != nil {
		return err
	}
	for tag, in := range got {
		if s := st[2*tag]; s.Source != 1-c.Rank() || s.Tag != tag || s.Count != from.Size() {
			return fmt.Errorf("status %+v", s)
		}
		if err := cameTo(in, from, 1-c.Rank()); err != nil {
			return err
		}
	}
	return nil
}

func viewsAgain(c *mpi.Comm, from, to mpi.Layout) error {
	init := []func(*mpi.Comm, mpi.View[int32], int, int) (*mpi.Persistent, error){mpi.SendViewInit[int32], mpi.SsendViewInit[int32]}
	out, in := mpi.View[int32]{make([]int32, roomOf(from)), from}, mpi.View[int32]{make([]int32, roomOf(to)), to}
	for tag, init := range init {
		r, err := mpi.RecvViewInit(c, in, 1-c.Rank(), tag)
		s, serr := init(c, out, 1-c.Rank(), tag)
		if err := all(err, serr); err != nil {
			return err
		}
		for round := range 3 {
			copy(out.Data, values(len(out.Data), c.Rank()+round, func(i int) int32 { return int32(i) }))
			clear(in.Data)
			rs := make([]mpi.Request, 2)
			if err := mpi.Startall([]*mpi.Persistent{r, s}, rs); err != nil {
				return err
			}
			_, again := r.Start()
			if err := all(wantErr("started twice", again, mpi.ErrRequest), wantErr("freed", r.Free(), mpi.ErrRequest)); err != nil {
				return err
			}
			if _, err := mpi.Waitall(rs); err != nil {
				return err
			}
			if err := cameTo(in, from, 1-c.Rank()+round); err != nil {
				return err
			}
		}
		if err := all(r.Free(), s.Free()); err != nil {
			return err
		}
	}
	return nil
}

// roomOf is the length of a slice for a layout, with something behind it.
func roomOf(l mpi.Layout) int {
	_, upper := l.Bounds()
	return upper + 2
}

// cameTo checks a view that has received, and what lies around its elements.
func cameTo(in mpi.View[int32], from mpi.Layout, seed int) error {
	sent := make([]int32, from.Size())
	expect := mpi.View[int32]{make([]int32, len(in.Data)), in.Layout}
	_, err := mpi.View[int32]{values(roomOf(from), seed, func(i int) int32 { return int32(i) }), from}.Pack(sent)
	_, err2 := expect.Unpack(sent)
	return all(err, err2, want("received", in.Data, expect.Data))
}

// A message that is too long fills the view, and is an error; one that is too short leaves the rest as it is; none comes after Cancel.
func TestViewsInFlightOfOtherLengths(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		every := mpi.Vector(2, 1, 2)
		recv := func(sent ...int) ([]int, error) {
			m := make([]int, 4)
			r, err := mpi.IrecvView(c, mpi.View[int]{m, every}, 0, 0)
			if err := all(err, mpi.Send(c, sent, 0, 0)); err != nil {
				return nil, err
			}
			st, err := r.Wait()
			if st.Count != min(len(sent), 2) {
				return nil, fmt.Errorf("%d elements: status %+v", len(sent), st)
			}
			return m, err
		}
		long, cut := recv(1, 2, 3)
		short, err := recv(1)
		if err := all(wantErr("too long", cut, mpi.ErrTruncate), want("too long", long, []int{1, 0, 2, 0}), err, want("too short", short, []int{1, 0, 0, 0})); err != nil {
			return err
		}
		r, err := mpi.IrecvView(c, mpi.View[int]{make([]int, 4), every}, mpi.AnySource, mpi.AnyTag)
		if err := all(err, r.Cancel()); err != nil {
			return err
		}
		_, err = r.Wait()
		return wantErr("cancelled", err, mpi.ErrCanceled)
	})
}

func TestViewInFlightErrors(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		m := make([]int, 4)
		outside, twice := mpi.View[int]{m, mpi.Vector(3, 1, 2)}, mpi.View[int]{m, mpi.Indexed([]int{2, 2}, []int{0, 1})}
		_, s1 := mpi.IsendView(c, outside, 0, 0)
		_, s2 := mpi.IssendView(c, outside, 0, 0)
		_, s3 := mpi.SendViewInit(c, outside, 0, 0)
		_, s4 := mpi.SsendViewInit(c, outside, 0, 0)
		_, r1 := mpi.IrecvView(c, twice, 0, 0)
		_, r2 := mpi.RecvViewInit(c, twice, 0, 0)
		for i, err := range []error{s1, s2, s3, s4, r1, r2} {
			if !errors.Is(err, mpi.ErrLayout) {
				return fmt.Errorf("%d: %v", i, err)
			}
		}
		return nil
	})
}

// Layouts of any numbers are packed, or refused with ErrLayout.
func TestAbsurdLayouts(t *testing.T) {
	number := rapid.OneOf(rapid.SampledFrom([]int{0, 1, 2, 3, -1, 1 << 20, 1 << 31, 1 << 42, 1 << 59, 1 << 60, 1<<60 + 1, 1 << 62, -1 << 60, -1 << 62, -1 << 63, 1<<63 - 1}), rapid.Int())
	rapid.Check(t, func(t *rapid.T) {
		n := func() int { return number.Draw(t, "n") }
		l := mpi.Contiguous(rapid.IntRange(0, 3).Draw(t, "first"))
		for range rapid.IntRange(1, 9).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				l = mpi.Vector(n(), n(), n())
			case 1:
				l = l.Repeat(n(), n())
			case 2:
				l = l.Shift(n())
			case 3:
				l = l.Resized(n(), n())
			case 4:
				l = l.Of(mpi.Vector(n(), n(), n()).Resized(n(), n()))
			case 5:
				l = mpi.Joined([]mpi.Layout{l, l}, []int{n(), n()})
			case 6:
				l = mpi.Subarray([]int{n(), n()}, []int{n(), n()}, []int{n(), n()})
			case 7:
				l = mpi.Indexed([]int{n(), n()}, []int{n(), n()})
			}
		}
		lower, upper := l.Bounds()
		if l.Err() == nil && (l.Size() < 0 || lower > upper) {
			t.Fatalf("size %d, from %d to %d", l.Size(), lower, upper)
		}
		view, room := mpi.View[[2]int]{make([][2]int, 5), l}, make([][2]int, 40)
		for _, err := range []error{err1(view.Pack(room)), err1(view.Unpack(room[:min(40, max(l.Size(), 0))])), err1(view.PackExternal(make([]byte, 640)))} {
			if err != nil && !errors.Is(err, mpi.ErrLayout) && !errors.Is(err, mpi.ErrCount) {
				t.Fatal(err)
			}
		}
	})
}

// Every call with a view refuses one that is longer than any memory.
func TestLayoutsLongerThanMemory(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		again := mpi.View[float64]{make([]float64, 1), mpi.Contiguous(1).Repeat(1<<60, 0)} // the same element, again and again
		wide := mpi.View[float64]{make([]float64, 1), mpi.Contiguous(1 << 60)}
		for what, v := range map[string]mpi.View[float64]{"again": again, "wide": wide} {
			one := []mpi.View[float64]{v}
			cart, err := c.Cart([]int{1}, []bool{true}, false)
			if err != nil {
				return err
			}
			for i, err := range []error{mpi.SendView(c, v, 0, 0), mpi.SsendView(c, v, 0, 0), err1(mpi.RecvView(c, v, 0, 0)), err1(mpi.IsendView(c, v, 0, 0)),
				err1(mpi.IssendView(c, v, 0, 0)), err1(mpi.IrecvView(c, v, 0, 0)), err1(mpi.SendViewInit(c, v, 0, 0)), err1(mpi.RecvViewInit(c, v, 0, 0)),
				mpi.Alltoallw(c, one, one), err1(mpi.Ialltoallw(c, one, one)), err1(mpi.AlltoallwInit(c, one, one)),
				mpi.NeighborAlltoallw(cart, slices.Repeat(one, 2), slices.Repeat(one, 2)), err1(v.PackExternal(nil)), err1(v.UnpackExternal(nil))} {
				if !errors.Is(err, mpi.ErrLayout) {
					return fmt.Errorf("%s, call %d: %v", what, i, err)
				}
			}
		}
		return nil
	})
}
