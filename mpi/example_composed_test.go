package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleIsendrecv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		right, left := (c.Rank()+1)%3, (c.Rank()+2)%3
		got := []int{0}
		r, err := mpi.Isendrecv(c, []int{c.Rank()}, right, 0, got, left, 0)
		if err != nil {
			return err
		}
		// ... compute what needs no neighbour ...
		st, err := r.Wait()
		return show(c, 0, fmt.Sprint(got[0], " from rank ", st.Source), err)
	})
	// Output: 2 from rank 2
}

func ExampleRsend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Rsend(c, []int{42}, 1, 0)
		}
		got := []int{0}
		_, err := mpi.Recv(c, got, 0, 0)
		fmt.Println(got[0])
		return err
	})
	// Output: 42
}

func ExampleBsend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := make([]int, 100_000)
		buf[0] = 42 + c.Rank()
		if err := mpi.Bsend(c, buf, 1-c.Rank(), 0); err != nil { // nobody waits for the other
			return err
		}
		buf[0] = -1 // it was copied
		_, err := mpi.Recv(c, buf, 1-c.Rank(), 0)
		return show(c, 0, buf[0], err)
	})
	// Output: 43
}

func ExampleIbsend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		r, err := mpi.Ibsend(c, []int{42 + c.Rank()}, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil { // at once
			return err
		}
		got := []int{0}
		_, err = mpi.Recv(c, got, 1-c.Rank(), 0)
		return show(c, 0, got[0], err)
	})
	// Output: 43
}

func ExampleRequest_Done() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{42}, 1, 0)
		}
		got := []int{0}
		r, err := mpi.Irecv(c, got, 0, 0)
		if err != nil {
			return err
		}
		select {
		case <-r.Done():
			_, err = r.Wait()
			fmt.Println("a message:", got[0])
		case <-time.After(time.Hour):
			fmt.Println("something else")
		}
		return err
	})
	// Output: a message: 42
}

func ExampleRequest_WaitContext() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			_, err := mpi.Recv(c, []int{0}, 1, 0)
			return all(err, mpi.Send(c, []int{42}, 1, 0))
		}
		got := []int{0}
		r, err := mpi.Irecv(c, got, 0, 0)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, err = r.WaitContext(ctx)
		fmt.Println("not yet:", errors.Is(err, mpi.ErrDeadline))
		if err := mpi.Send(c, []int{1}, 0, 0); err != nil {
			return err
		}
		_, err = r.WaitContext(context.Background()) // it is still active
		fmt.Println(got[0])
		return err
	})
	// Output:
	// not yet: true
	// 42
}

func ExampleNewRequest() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		work, complete, err := mpi.NewRequest(c)
		if err != nil {
			return err
		}
		sum := 0
		go func() {
			for i := range 1000 {
				sum += i
			}
			_ = complete(mpi.Status{Count: 1}, nil) // called once, it returns no error
		}()
		got := []int{0}
		message, err := mpi.Isendrecv(c, []int{c.Rank()}, 1-c.Rank(), 0, got, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		_, err = mpi.Waitall([]mpi.Request{work, message}) // the goroutine's work and the message
		return show(c, 0, fmt.Sprint(sum, " ", got[0]), err)
	})
	// Output: 499500 1
}

// timer is something that ends by itself.
type timer time.Duration

func (t timer) OnDone(f func(error)) { time.AfterFunc(time.Duration(t), func() { f(nil) }) }

func ExampleRequestOf() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		tick, err := mpi.RequestOf(c, timer(time.Microsecond))
		if err != nil {
			return err
		}
		got := []int{0}
		message, err := mpi.Isendrecv(c, []int{c.Rank()}, 1-c.Rank(), 0, got, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		if _, err := mpi.Waitall([]mpi.Request{tick, message}); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("both are over:", got)
		}
		return nil
	})
	// Output: both are over: [1]
}
