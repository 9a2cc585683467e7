package mpi_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestProbe(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				if c.Rank() == 1 {
					return mpi.Send(c, make([]float32, n), 0, 4)
				}
				st, err := c.Probe(mpi.AnySource, mpi.AnyTag)
				if err := all(err, wantStatus(st, 1, 4, n)); err != nil {
					return err
				}
				if mpi.CountOf[int32](st) != n || mpi.CountOf[string](st) != mpi.Undefined || n%2 == 1 && mpi.CountOf[float64](st) != mpi.Undefined {
					return fmt.Errorf("CountOf: %+v", st)
				}
				st, ok, err := c.Iprobe(1, 4)
				if err := all(err, wantStatus(st, 1, 4, n)); err != nil || !ok {
					return fmt.Errorf("Iprobe: %v, %w", ok, err)
				}
				if _, ok, err := c.Iprobe(1, 5); ok || err != nil {
					return fmt.Errorf("another tag: %v, %w", ok, err)
				}
				st, err = mpi.Recv(c, make([]float32, n), st.Source, st.Tag)
				if err := all(err, wantStatus(st, 1, 4, n)); err != nil {
					return err
				}
				if _, ok, err := c.Iprobe(mpi.AnySource, mpi.AnyTag); ok || err != nil {
					return fmt.Errorf("afterwards: %v, %w", ok, err)
				}
				return nil
			})
		})
	}
}

// Many goroutines take messages of unknown length; each message is received
// once, whole.
func TestMatchedProbe(t *testing.T) {
	const n, workers = 200, 4
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			for i := range n {
				size := i%50 + 1
				if i%20 == 0 {
					size = 5000
				}
				buf := make([]int, size)
				buf[0], buf[size-1] = i, i
				if err := mpi.Send(c, buf, 0, 0); err != nil {
					return err
				}
			}
			for range workers {
				if err := mpi.Send(c, []int{}, 0, 0); err != nil {
					return err
				}
			}
			return nil
		}
		var mu sync.Mutex
		seen := make([]int, n)
		errs := make([]error, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				errs[w] = take(c, func(i int) {
					mu.Lock()
					seen[i]++
					mu.Unlock()
				})
			})
		}
		wg.Wait()
		for i, k := range seen {
			if k != 1 {
				return fmt.Errorf("message %d was received %d times", i, k)
			}
		}
		return errors.Join(errs...)
	})
}

// take receives messages until an empty one comes.
func take(c *mpi.Comm, got func(i int)) error {
	for {
		m, st, err := c.Mprobe(mpi.AnySource, 0)
		if err != nil {
			return err
		}
		buf := make([]int, st.Count)
		r, err := mpi.Imrecv(m, buf)
		if err != nil {
			return err
		}
		if st, err = r.Wait(); err != nil {
			return err
		}
		if st.Count == 0 {
			return nil
		}
		if buf[0] != buf[len(buf)-1] {
			return fmt.Errorf("message %d ends with %d", buf[0], buf[len(buf)-1])
		}
		got(buf[0])
	}
}

func TestImprobe(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		if _, _, ok, err := c.Improbe(0, 1); ok || err != nil {
			return fmt.Errorf("nothing there: %v, %w", ok, err)
		}
		if err := mpi.SendValue(c, 5, 0, 1); err != nil {
			return err
		}
		m, st, ok, err := c.Improbe(0, mpi.AnyTag)
		if err := all(err, wantStatus(st, 0, 1, 1)); err != nil || !ok {
			return fmt.Errorf("%v, %w", ok, err)
		}
		if _, ok, err := c.Iprobe(0, 1); ok || err != nil {
			return fmt.Errorf("it is still there: %v, %w", ok, err)
		}
		buf := []int{0}
		if _, err := mpi.Mrecv(m, buf); err != nil || buf[0] != 5 {
			return fmt.Errorf("%v, %w", buf, err)
		}
		_, err = mpi.Mrecv(m, buf)
		return wantErr("received twice", err, mpi.ErrRequest)
	})
}

// A message that a matched probe has taken outlives its communicator, on either side.
func TestMatchedOutlivesItsCommunicator(t *testing.T) {
	for _, n := range []int{0, 3, 40_000} {
		mpitest.Run(t, 2, func(c *mpi.Comm) error {
			d, err := c.Dup()
			if err != nil {
				return err
			}
			out := values(n, 5, func(i int) int { return i })
			if c.Rank() == 0 {
				r := must(mpi.Isend(d, out, 1, 4))
				return all(d.Free(), errOf(r.Wait()), mpi.Barrier(c))
			}
			m, st, err := d.Mprobe(mpi.AnySource, mpi.AnyTag)
			if err := all(err, wantStatus(st, 0, 4, n), d.Free()); err != nil {
				return err
			}
			in := make([]int, n)
			st, err = mpi.Mrecv(m, in)
			return all(err, wantStatus(st, 0, 4, n), want("message", in, out), wantErr("again", errOf(mpi.Mrecv(m, in)), mpi.ErrRequest), mpi.Barrier(c))
		})
	}
}
