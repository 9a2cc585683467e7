package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Results come in the order of the tasks, whoever has done them, also of long ones and of more ranks than tasks.
func TestMap(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		for _, n := range []int{0, 1, 3, 100} {
			mpitest.Run(t, ranks, func(c *mpi.Comm) error {
				tasks := make([]string, n)
				for i := range tasks {
					tasks[i] = strings.Repeat(string(rune('a'+i%26)), i*i*20)
				}
				got, err := mpi.Map(c, tasks, func(s string) (string, error) { return s + "!", nil })
				if err != nil {
					return err
				}
				if c.Rank() > 0 {
					if got != nil {
						return fmt.Errorf("rank %d has results", c.Rank())
					}
					return nil
				}
				for i, s := range got {
					if s != tasks[i]+"!" {
						return fmt.Errorf("task %d: %.20s", i, s)
					}
				}
				if len(got) != n {
					return fmt.Errorf("%d results of %d", len(got), n)
				}
				return nil
			})
		}
	}
}

// All ranks learn of an error of a task, and the communicator can be used on.
func TestMapFails(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		mpitest.Run(t, ranks, func(c *mpi.Comm) error {
			_, err := mpi.Map(c, []int{1, 2, 3, 4}, func(x int) (int, error) {
				if x == 3 {
					return 0, errors.New("no threes")
				}
				return x, nil
			})
			if err == nil || !strings.Contains(err.Error(), "no threes") || !strings.Contains(err.Error(), "task 2 of 4") {
				return fmt.Errorf("rank %d: %v", c.Rank(), err)
			}
			sum, err := mpi.AllreduceValue(c, 1, mpi.Sum)
			if err != nil || sum != ranks {
				return fmt.Errorf("afterwards: %d, %v", sum, err)
			}
			return nil
		})
	}
}

// What is submitted from several goroutines is finished before RunPool returns.
func TestPoolFinishes(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		var futures [3]*mpi.Future[int]
		if err := mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error {
			submitted := make(chan int)
			for i := range futures {
				go func() { futures[i] = p.Submit(i); submitted <- i }()
			}
			for range futures {
				<-submitted
			}
			return nil
		}); err != nil || c.Rank() > 0 {
			return err
		}
		for i, f := range futures {
			select {
			case <-f.Done():
			default:
				return fmt.Errorf("task %d is not finished", i)
			}
			if v, err := f.Wait(); err != nil || v != i*i {
				return fmt.Errorf("task %d: %d, %v", i, v, err)
			}
		}
		return nil
	})
}

// What cannot be encoded, or decoded, is the error of its task; misuse is an error on all ranks.
func TestPoolErrors(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		_, err := mpi.Map(c, []func(){nil, nil}, func(func()) (int, error) { return 0, nil })
		if err == nil || !strings.Contains(err.Error(), "encoding a func()") {
			return fmt.Errorf("a task that is a function: %v", err)
		}
		_, err = mpi.Map(c, []int{1}, func(int) (func(), error) { return nil, nil })
		if err == nil || !strings.Contains(err.Error(), "encoding a func()") {
			return fmt.Errorf("a result that is a function: %v", err)
		}
		mine := errors.New("enough")
		err = mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error { p.Submit(1); return mine })
		if c.Rank() == 0 && !errors.Is(err, mine) || err == nil || !strings.Contains(err.Error(), "enough") {
			return fmt.Errorf("rank %d: %v", c.Rank(), err)
		}
		_, err = mpi.Map(nil, []int{1}, square)
		return wantErr("no communicator", err, mpi.ErrComm)
	})
}

// Objects that are received ahead match in order, whatever their length, and by any wait.
func TestObjectRequests(t *testing.T) {
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		return onComms(world, func(c *mpi.Comm) error {
			const n = 20
			next, prev := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
			var rs mpi.Requests
			var got [n][]int
			for i := range got {
				rs.Add(mpi.IrecvObject(c, &got[i], prev, mpi.AnyTag))
			}
			for i := range n {
				rs.Add(mpi.IsendObject(c, slices.Repeat([]int{i}, i*i*i), next, i))
			}
			if err := rs.Wait(); err != nil {
				return err
			}
			for i := range got {
				if len(got[i]) != i*i*i || i > 0 && got[i][0] != i {
					return fmt.Errorf("object %d has %d numbers", i, len(got[i]))
				}
			}
			var r mpi.Request
			if err := mpi.SendObject(c, "late", next, 1); err != nil { // before its receive
				return err
			}
			var text string
			r, err := mpi.IrecvObject(c, &text, prev, 1)
			if err != nil {
				return err
			}
			st, err := r.Wait()
			if err != nil || text != "late" || st.Source != prev || st.Tag != 1 || st.Bytes == 0 {
				return fmt.Errorf("%q, %+v: %w", text, st, err)
			}
			return nil
		})
	})
}

// Numbers are no object, an object of another type is the request's error, a receive can be withdrawn.
func TestObjectRequestErrors(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		var d document
		wait := func() error {
			r, err := mpi.IrecvObject(c, &d, 0, 1)
			if err != nil {
				return err
			}
			_, err = r.Wait()
			return err
		}
		if err := mpi.Send(c, []byte("no object"), 0, 1); err != nil {
			return err
		}
		if err := wantErr("bytes as object", wait(), mpi.ErrType); err != nil {
			return err
		}
		if err := mpi.SendObject(c, 5, 0, 1); err != nil {
			return err
		}
		if err := wait(); err == nil || !strings.Contains(err.Error(), "Wait of IrecvObject(source 0, tag 1)") || !strings.Contains(err.Error(), "decoding into *mpi_test.document") {
			return fmt.Errorf("another type: %v", err)
		}
		r, err := mpi.IrecvObject(c, &d, 0, 2)
		if err != nil {
			return err
		}
		if err := r.Cancel(); err != nil {
			return err
		}
		_, err = r.Wait()
		return wantErr("cancelled", err, mpi.ErrCanceled)
	})
}
