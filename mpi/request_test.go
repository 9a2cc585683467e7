package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestInactiveRequests(t *testing.T) {
	empty := mpi.Status{Source: mpi.AnySource, Tag: mpi.AnyTag}
	var r mpi.Request
	if st, err := r.Wait(); st != empty || err != nil {
		t.Errorf("Wait: %+v, %v", st, err)
	}
	if st, done, err := r.Test(); st != empty || !done || err != nil {
		t.Errorf("Test: %+v, %v, %v", st, done, err)
	}
	if !r.Completed() || r.Cancel() != nil {
		t.Error("Done, Cancel")
	}
	rs := make([]mpi.Request, 3)
	if i, st, err := mpi.Waitany(rs); i != mpi.Undefined || st != empty || err != nil {
		t.Errorf("Waitany: %d, %+v, %v", i, st, err)
	}
	if is, _, err := mpi.Waitsome(rs); len(is) != 0 || err != nil {
		t.Errorf("Waitsome: %v, %v", is, err)
	}
	if i, _, ok, err := mpi.Testany(rs); i != mpi.Undefined || !ok || err != nil {
		t.Errorf("Testany: %d, %v, %v", i, ok, err)
	}
	if _, ok, err := mpi.Testall(rs); !ok || err != nil {
		t.Errorf("Testall: %v, %v", ok, err)
	}
	if st, err := mpi.Waitall(nil); len(st) != 0 || err != nil {
		t.Errorf("Waitall: %v, %v", st, err)
	}
	if err := mpi.WaitallInto(rs, make([]mpi.Status, 2)); !errors.Is(err, mpi.ErrCount) {
		t.Errorf("WaitallInto: %v", err)
	}
}

// The status of a request counts elements of any size, also of those too large for
// a request to remember.
func TestCountOfRequests(t *testing.T) {
	type huge [1 << 29]byte
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		return all(countOf[huge](c, 0), countOf[[1 << 28]uint16](c, 0), countOf[[1<<29 - 1]byte](c, 0), countOf[[3]int32](c, 5), countOf[byte](c, 7))
	})
}

func countOf[T any](c *mpi.Comm, n int) error {
	r, err := mpi.Irecv(c, make([]T, n), 0, 0)
	if err != nil {
		return err
	}
	if err := mpi.Send(c, make([]T, n), 0, 0); err != nil {
		return err
	}
	if st, err := r.Wait(); st.Count != n || err != nil {
		return fmt.Errorf("%T: %+v, %v", *new([0]T), st, err)
	}
	return nil
}

// receives posts receives of tags 0..n-1 from rank 1.
func receives(c *mpi.Comm, n int) ([]mpi.Request, [][]int, error) {
	rs, bufs := make([]mpi.Request, n), make([][]int, n)
	for i := range rs {
		bufs[i] = []int{-1}
		var err error
		if rs[i], err = mpi.Irecv(c, bufs[i], 1, i); err != nil {
			return nil, nil, err
		}
	}
	return rs, bufs, nil
}

// sendsBack sends tags n-1..0, in that order.
func sendsBack(c *mpi.Comm, n int) error {
	for i := n - 1; i >= 0; i-- {
		if err := mpi.SendValue(c, 10*i, 0, i); err != nil {
			return err
		}
	}
	return nil
}

// Every way to complete several requests completes each once.
func TestCompletion(t *testing.T) {
	const n = 20
	ways := map[string]func(rs []mpi.Request, got map[int]mpi.Status) error{
		"Waitall": func(rs []mpi.Request, got map[int]mpi.Status) error {
			sts, err := mpi.Waitall(rs)
			for i, st := range sts {
				got[i] = st
			}
			return err
		},
		"Waitany": func(rs []mpi.Request, got map[int]mpi.Status) error {
			i, st, err := mpi.Waitany(rs)
			got[i] = st
			return err
		},
		"Waitsome": func(rs []mpi.Request, got map[int]mpi.Status) error {
			is, sts, err := mpi.Waitsome(rs)
			for k, i := range is {
				got[i] = sts[k]
			}
			return err
		},
		"Testall": func(rs []mpi.Request, got map[int]mpi.Status) error {
			sts, ok, err := mpi.Testall(rs)
			for i, st := range sts {
				got[i] = st
			}
			if !ok && len(sts) > 0 {
				return errors.New("statuses without ok")
			}
			return err
		},
		"Testany": func(rs []mpi.Request, got map[int]mpi.Status) error {
			i, st, ok, err := mpi.Testany(rs)
			if ok {
				got[i] = st
			}
			return err
		},
		"Testsome": func(rs []mpi.Request, got map[int]mpi.Status) error {
			is, sts, err := mpi.Testsome(rs)
			for k, i := range is {
				got[i] = sts[k]
			}
			return err
		},
		"Test": func(rs []mpi.Request, got map[int]mpi.Status) error {
			for i := range rs {
				st, done, err := rs[i].Test()
				if err != nil {
					return err
				}
				if _, before := got[i]; done && !before {
					got[i], rs[i] = st, mpi.Request{}
				}
			}
			return nil
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				if c.Rank() == 1 {
					return sendsBack(c, n)
				}
				rs, bufs, err := receives(c, n)
				if err != nil {
					return err
				}
				got := map[int]mpi.Status{}
				for len(got) < n {
					if err := way(rs, got); err != nil {
						return err
					}
				}
				for i := range n {
					if err := wantStatus(got[i], 1, i, 1); err != nil || bufs[i][0] != 10*i || rs[i] != (mpi.Request{}) {
						return fmt.Errorf("request %d: %v, %v, %w", i, bufs[i], rs[i], err)
					}
				}
				return nil
			})
		})
	}
}

// With several requests complete all the time, none is passed over for ever.
func TestFairness(t *testing.T) {
	const n, rounds = 8, 400
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		rs, served := make([]mpi.Request, n), make([]int, n)
		post := func(i int) (err error) {
			if rs[i], err = mpi.Irecv(c, []int{0}, 0, i); err != nil {
				return err
			}
			return mpi.SendValue(c, i, 0, i)
		}
		for i := range rs {
			if err := post(i); err != nil {
				return err
			}
		}
		for range rounds {
			i, _, err := mpi.Waitany(rs)
			if err != nil {
				return err
			}
			served[i]++
			if err := post(i); err != nil {
				return err
			}
		}
		for i, k := range served {
			if k < rounds/n/2 {
				return fmt.Errorf("request %d was served %d of %d times: %v", i, k, rounds, served)
			}
		}
		_, err := mpi.Waitall(rs)
		return err
	})
}

func TestStaleRequest(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		r, err := mpi.Irecv(c, []int{0}, 0, 0)
		if err := all(err, mpi.SendValue(c, 1, 0, 0)); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		other, err := mpi.Irecv(c, []int{0}, 0, 1) // perhaps in the same place
		if err != nil {
			return err
		}
		_, werr := r.Wait()
		_, _, terr := r.Test()
		if err := all(wantErr("Wait", werr, mpi.ErrRequest), wantErr("Test", terr, mpi.ErrRequest), wantErr("Cancel", r.Cancel(), mpi.ErrRequest)); err != nil {
			return err
		}
		if err := mpi.SendValue(c, 2, 0, 1); err != nil {
			return err
		}
		_, err = other.Wait()
		return err
	})
}

func TestCancel(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return all(mpi.SendValue(c, 1, 0, 5), mpi.SendValue(c, 2, 0, 6))
		}
		if _, err := c.Probe(1, 6); err != nil { // both are here
			return err
		}
		lost, err1 := mpi.Irecv(c, []int{0}, 1, 7)
		had, err2 := mpi.Irecv(c, []int{0}, 1, 5)
		if err := all(err1, err2, lost.Cancel(), had.Cancel()); err != nil {
			return err
		}
		_, err := lost.Wait()
		if err := wantErr("cancelled", err, mpi.ErrCanceled); err != nil {
			return err
		}
		st, err := had.Wait() // it was matched: as if never cancelled
		if err := all(err, wantStatus(st, 1, 5, 1)); err != nil {
			return err
		}
		s, err := mpi.Isend(c, []int{1}, 0, 9)
		if err := all(err, wantErr("send", s.Cancel(), mpi.ErrRequest)); err != nil {
			return err
		}
		_, err1 = mpi.Recv(c, []int{0}, 0, 9)
		_, err2 = s.Wait()
		_, err = mpi.Recv(c, []int{0}, 1, 6)
		return all(err1, err2, err)
	})
}

// The statuses of requests that went well are there beside the error of others.
func TestWaitallErrors(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		a, err1 := mpi.Irecv(c, []int{0}, 0, 0)
		b, err2 := mpi.Irecv(c, []int{0}, 0, 1)
		d, err3 := mpi.Irecv(c, []int{0}, 0, 2)
		if err := all(err1, err2, err3, mpi.Send(c, []int{1}, 0, 0), mpi.Send(c, []int{1, 2}, 0, 1), mpi.Send(c, []int32{1}, 0, 2)); err != nil {
			return err
		}
		sts, err := mpi.Waitall([]mpi.Request{a, b, d})
		return all(wantErr("first", err, mpi.ErrTruncate), wantErr("second", err, mpi.ErrType), wantStatus(sts[0], 0, 0, 1))
	})
}

// One request fails beside others that end well: every way to end several requests names the one, and gives the others
// their statuses. Each is ended by it.
func TestErrorsOfSeveral(t *testing.T) {
	ways := map[string]func(rs []mpi.Request) ([]int, []mpi.Status, error){
		"Waitall": func(rs []mpi.Request) ([]int, []mpi.Status, error) {
			st, err := mpi.Waitall(rs)
			return indexes(len(st)), st, err
		},
		"Testall": func(rs []mpi.Request) ([]int, []mpi.Status, error) {
			st, ok, err := mpi.Testall(rs)
			if !ok {
				return nil, nil, err
			}
			return indexes(len(st)), st, err
		},
		"Waitsome": mpi.Waitsome,
		"Testsome": mpi.Testsome,
		"Waitany": func(rs []mpi.Request) ([]int, []mpi.Status, error) {
			i, st, err := mpi.Waitany(rs)
			return []int{i}, []mpi.Status{st}, err
		},
		"Testany": func(rs []mpi.Request) ([]int, []mpi.Status, error) {
			i, st, ok, err := mpi.Testany(rs)
			if !ok {
				return nil, nil, err
			}
			return []int{i}, []mpi.Status{st}, err
		},
	}
	for name, way := range ways {
		mpitest.Run(t, 1, func(c *mpi.Comm) error {
			bufs := [][]int{make([]int, 2), make([]int, 1), make([]int, 2)}
			rs := make([]mpi.Request, 4) // the last one is none
			for i, b := range bufs {
				rs[i] = must(mpi.Irecv(c, b, 0, i))
			}
			for i := range bufs {
				if err := mpi.Send(c, []int{i, i}, 0, i); err != nil {
					return err
				}
			}
			ended, failed := map[int]mpi.Status{}, 0
			for len(ended) < len(bufs) {
				is, sts, err := way(rs)
				for k, i := range is {
					if i < len(bufs) {
						ended[i] = sts[k]
					}
				}
				var one *mpi.RequestError
				if err == nil {
					continue
				}
				if failed++; !errors.As(err, &one) || one.Index != 1 || !errors.Is(err, mpi.ErrTruncate) {
					return fmt.Errorf("%s: %w", name, err)
				}
				ended[1] = mpi.Status{}
			}
			return all(want(name+": errors", []int{failed}, []int{1}), wantStatus(ended[0], 0, 0, 2), wantStatus(ended[2], 0, 2, 2),
				want(name+": left", rs, make([]mpi.Request, 4)))
		})
	}
}

// indexes returns 0 to n-1.
func indexes(n int) []int { return values2(n, func(i int) int { return i }) }
