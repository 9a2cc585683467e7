package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// shift sends to the next rank and receives from the one before, in every way
// there is, in every size, on every communicator.
func shift[T comparable](of func(int) T) func(*mpi.Comm) error {
	return func(world *mpi.Comm) error {
		return onComms(world, func(c *mpi.Comm) error {
			for _, n := range sizes {
				if err := shiftOnce(c, n, of); err != nil {
					return fmt.Errorf("%d elements: %w", n, err)
				}
			}
			return nil
		})
	}
}

func shiftOnce[T comparable](c *mpi.Comm, n int, of func(int) T) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	mine, theirs := values(n, c.Rank(), of), values(n, prev, of)
	got := make([]T, n+1) // one more than is sent
	check := func(what string, st mpi.Status, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if st.Source != prev || st.Tag != 5 || st.Count != n || mpi.CountOf[T](st) != n {
			return fmt.Errorf("%s: status %+v", what, st)
		}
		return want(what, got[:n], theirs)
	}
	st, err := mpi.Sendrecv(c, mine, next, 5, got, prev, 5)
	if err := check("Sendrecv", st, err); err != nil {
		return err
	}
	clear(got)
	r, err := mpi.Irecv(c, got, mpi.AnySource, mpi.AnyTag)
	if err != nil {
		return err
	}
	if err := mpi.Send(c, mine, next, 5); err != nil {
		return err
	}
	st, err = r.Wait()
	if err := check("Irecv, Send", st, err); err != nil {
		return err
	}
	clear(got)
	s, err := mpi.Isend(c, mine, next, 5)
	if err != nil {
		return err
	}
	st, err = mpi.Recv(c, got, prev, 5)
	if err := check("Isend, Recv", st, err); err != nil {
		return err
	}
	if _, err := s.Wait(); err != nil {
		return err
	}
	clear(got)
	if s, err = mpi.Issend(c, mine, next, 5); err != nil {
		return err
	}
	list, st, err := mpi.RecvAlloc[T](c, mpi.AnySource, 5)
	copy(got, list)
	if err := check("Issend, RecvAlloc", st, err); err != nil {
		return err
	}
	if _, err := s.Wait(); err != nil {
		return err
	}
	copy(got, mine)
	st, err = mpi.SendrecvReplace(c, got[:n], next, 5, prev, 5)
	return check("SendrecvReplace", st, err)
}

func TestSendRecv(t *testing.T) {
	perType(t, 4,
		shift(func(i int) bool { return i%3 == 0 }),
		shift(func(i int) int8 { return int8(i) }),
		shift(func(i int) uint16 { return uint16(i) }),
		shift(func(i int) int32 { return int32(-i) }),
		shift(func(i int) uint64 { return uint64(i) << 40 }),
		shift(func(i int) int { return i - 9 }),
		shift(func(i int) float32 { return float32(i) / 2 }),
		shift(func(i int) float64 { return float64(i) / 3 }),
		shift(func(i int) complex128 { return complex(float64(i), -1) }),
		shift(func(i int) celsius { return celsius(i) }),
		shift(func(i int) [2]int32 { return [2]int32{int32(i), -1} }),
		shift(func(i int) point { return point{X: float64(i), Label: [3]uint16{1, 2, uint16(i)}, On: i%2 == 0} }),
	)
}

func TestSsendSendsWhole(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		for _, n := range sizes {
			if c.Rank() == 0 {
				if err := mpi.Ssend(c, values(n, 1, func(i int) int { return i }), 1, 0); err != nil {
					return err
				}
				continue
			}
			got, _, err := mpi.RecvAlloc[int](c, 0, 0)
			if err := all(err, want("Ssend", got, values(n, 1, func(i int) int { return i }))); err != nil {
				return err
			}
		}
		return nil
	})
}

// A synchronous send is not over before its receive has begun.
func TestIssendWaits(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			s, err := mpi.Issend(c, []int{1}, 1, 1)
			if err != nil {
				return err
			}
			if err := mpi.Send(c, []int{2}, 1, 2); err != nil { // says: look whether it is over
				return err
			}
			if _, err := mpi.Recv(c, []int{0}, 1, 3); err != nil {
				return err
			}
			if s.Completed() {
				return errors.New("Issend is over before its receive")
			}
			if err := mpi.Send(c, []int{2}, 1, 2); err != nil {
				return err
			}
			_, err = s.Wait()
			return err
		}
		for range 2 {
			if _, err := mpi.Recv(c, []int{0}, 0, 2); err != nil {
				return err
			}
			if err := mpi.Send(c, []int{2}, 0, 3); err != nil {
				return err
			}
		}
		_, err := mpi.Recv(c, []int{0}, 0, 1)
		return err
	})
}

func TestValues(t *testing.T) {
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		return onComms(world, func(c *mpi.Comm) error {
			next, prev := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
			big := [100]float64{99: float64(c.Rank())}
			if err := all(
				mpi.SendValue(c, c.Rank(), next, 0),
				mpi.SendValue(c, point{X: 1.5, On: true}, next, 1),
				mpi.SendValue(c, big, next, 2)); err != nil {
				return err
			}
			r, st, err := mpi.RecvValue[int](c, prev, 0)
			if err != nil || r != prev || st.Source != prev || st.Count != 1 {
				return fmt.Errorf("%d, %+v, %w", r, st, err)
			}
			p, _, err := mpi.RecvValue[point](c, mpi.AnySource, 1)
			if err != nil || p != (point{X: 1.5, On: true}) {
				return fmt.Errorf("%v, %w", p, err)
			}
			b, _, err := mpi.RecvValue[[100]float64](c, prev, 2)
			if err != nil || b[99] != float64(prev) {
				return fmt.Errorf("%v, %w", b, err)
			}
			if err := all(mpi.Send(c, []int{}, next, 3), mpi.Send(c, []int{1, 2}, next, 4)); err != nil {
				return err
			}
			_, _, err = mpi.RecvValue[int](c, prev, 3)
			_, _, err2 := mpi.RecvValue[int](c, prev, 4)
			return all(wantErr("empty", err, mpi.ErrCount), wantErr("two", err2, mpi.ErrTruncate))
		})
	})
}

func TestProcNull(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		null := mpi.Status{Source: mpi.ProcNull, Tag: mpi.AnyTag}
		buf := []int{7}
		check := func(what string, st mpi.Status, err error) error {
			if err != nil || st != null || buf[0] != 7 {
				return fmt.Errorf("%s: %+v, %v, %w", what, st, buf, err)
			}
			return nil
		}
		st, err := mpi.Recv(c, buf, mpi.ProcNull, 3)
		if err := all(mpi.Send(c, buf, mpi.ProcNull, 3), mpi.Ssend(c, buf, mpi.ProcNull, 3), check("Recv", st, err)); err != nil {
			return err
		}
		st, err = mpi.Sendrecv(c, buf, mpi.ProcNull, 0, []int{0}, mpi.ProcNull, 0)
		if err := check("Sendrecv", st, err); err != nil {
			return err
		}
		r, err := mpi.Irecv(c, buf, mpi.ProcNull, 0)
		if err != nil {
			return err
		}
		st, err = r.Wait()
		if err := check("Irecv", st, err); err != nil {
			return err
		}
		st, err = c.Probe(mpi.ProcNull, 0)
		if err := check("Probe", st, err); err != nil {
			return err
		}
		m, st, err := c.Mprobe(mpi.ProcNull, 0)
		if err := check("Mprobe", st, err); err != nil {
			return err
		}
		st, err = mpi.Mrecv(m, buf)
		return check("Mrecv", st, err)
	})
}

// Messages of one sender arrive in their order, whatever is between them.
func TestOrder(t *testing.T) {
	const n = 300
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		if c.Rank() > 0 {
			for i := range n {
				size := 1
				if i%17 == 0 {
					size = 30_000 // 240 KB
				}
				buf := make([]int, size)
				buf[0] = i
				if err := mpi.Send(c, buf, 0, i%3); err != nil {
					return err
				}
			}
			return nil
		}
		buf := make([]int, 30_000)
		next := map[[2]int]int{}
		for range 2 * n {
			st, err := mpi.Recv(c, buf, mpi.AnySource, mpi.AnyTag)
			if err != nil {
				return err
			}
			k := [2]int{st.Source, st.Tag}
			if want := next[k]*3 + st.Tag; buf[0] != want {
				return fmt.Errorf("from %d tag %d: message %d, want %d", st.Source, st.Tag, buf[0], want)
			}
			next[k]++
		}
		return nil
	})
}

func TestLargestTag(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		other := 1 - c.Rank()
		got := []int{0}
		st, err := mpi.Sendrecv(c, []int{c.Rank()}, other, mpi.MaxTag, got, other, mpi.MaxTag)
		if err != nil || st.Tag != mpi.MaxTag || got[0] != other {
			return fmt.Errorf("%+v %v %w", st, got, err)
		}
		return nil
	})
}

// Messages of one sender and tag arrive in the order in which the calls were made, whatever calls they were, and however
// long each is.
func TestOrderOfModes(t *testing.T) {
	const rounds = 4
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		short, long := make([]int, 1), make([]int, 20_000)
		if c.Rank() == 1 {
			for i := range 7 * rounds {
				st, err := mpi.Recv(c, long, 0, mpi.AnyTag)
				if err := all(err, wantStatus(st, 0, 5, []int{1, 20_000}[i%2]), want("message", long[:1], []int{i})); err != nil {
					return err
				}
			}
			return nil
		}
		var rs []mpi.Request
		next := 0
		buffer := func() []int {
			b := append([]int(nil), [][]int{short, long}[next%2]...)
			b[0] = next
			next++
			return b
		}
		for range rounds {
			rs = append(rs, must(mpi.Isend(c, buffer(), 1, 5)))
			if err := mpi.Bsend(c, buffer(), 1, 5); err != nil {
				return err
			}
			rs = append(rs, must(mpi.Issend(c, buffer(), 1, 5)), must(must(mpi.SendInit(c, buffer(), 1, 5)).Start()))
			b := buffer()
			rs = append(rs, must(mpi.IsendView(c, mpi.View[int]{Data: b, Layout: mpi.Contiguous(len(b))}, 1, 5)))
			if err := mpi.Send(c, buffer(), 1, 5); err != nil {
				return err
			}
			if err := mpi.Ssend(c, buffer(), 1, 5); err != nil {
				return err
			}
		}
		_, err := mpi.Waitall(rs)
		return err
	})
}
