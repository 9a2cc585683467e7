package mpi_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func square(x int) (int, error) { return x * x, nil }

func ExampleMap() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		squares, err := mpi.Map(c, []int{1, 2, 3, 4, 5}, square)
		if c.Rank() == 0 {
			fmt.Println(squares)
		}
		return err
	})
	// Output: [1 4 9 16 25]
}

// What comes back decides what is asked next.
func ExampleRunPool() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		return mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error {
			x := 2
			for x < 1000 {
				var err error
				if x, err = p.Submit(x).Wait(); err != nil {
					return err
				}
			}
			fmt.Println(x)
			return nil
		})
	})
	// Output: 65536
}

func ExamplePool_Submit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		return mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error {
			a, b := p.Submit(3), p.Submit(4) // in any order, on any rank
			x, err := a.Wait()
			y, berr := b.Wait()
			fmt.Println(x + y)
			return errors.Join(err, berr)
		})
	})
	// Output: 25
}

func ExamplePool_Map() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		return mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error {
			numbers := []int{1, 2, 3}
			for range 3 {
				var err error
				if numbers, err = p.Map(numbers); err != nil {
					return err
				}
			}
			fmt.Println(numbers)
			return nil
		})
	})
	// Output: [1 256 6561]
}

func ExampleFuture_Wait() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		root := func(x int) (string, error) {
			if x < 0 {
				return "", errors.New("a negative number")
			}
			return fmt.Sprint(x), nil
		}
		return mpi.RunPool(c, root, func(p *mpi.Pool[int, string]) error {
			_, err := p.Submit(-1).Wait()
			var failed *mpi.TaskError
			fmt.Println(errors.As(err, &failed), failed.Err)
			return nil
		})
	})
	// Output: true a negative number
}

func ExampleFuture_Done() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		return mpi.RunPool(c, square, func(p *mpi.Pool[int, int]) error {
			f := p.Submit(5)
			<-f.Done()
			fmt.Println(f.Wait())
			return nil
		})
	})
	// Output: 25 <nil>
}

func ExampleRequests_Add() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		left, right := (c.Rank()+2)%3, (c.Rank()+1)%3
		in := make([]int, 1)
		var rs mpi.Requests
		rs.Add(mpi.Irecv(c, in, left, 0))
		rs.Add(mpi.Isend(c, []int{c.Rank()}, right, 0))
		err := rs.Wait()
		if c.Rank() == 0 {
			fmt.Println(in)
		}
		return err
	})
	// Output: [2]
}

// The first call that could not begin is told, not the message that nobody will send.
func ExampleRequests_Wait() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		in := make([]int, 1)
		var rs mpi.Requests
		rs.Add(mpi.Irecv(c, in, 0, 0))
		rs.Add(mpi.Isend(c, []int{1}, 7, 0)) // there is no rank 7
		fmt.Println(errors.Is(rs.Wait(), mpi.ErrRank))
		if err := mpi.Send(c, []int{1}, 0, 0); err != nil {
			return err
		}
		for _, r := range rs.Rest() { // the receive
			rs.Add(r, nil)
		}
		return rs.Wait()
	})
	// Output: true
}

// A receive that is not needed any more is cancelled.
func ExampleRequests_Rest() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		var rs mpi.Requests
		rs.Add(mpi.Irecv(c, make([]int, 1), 0, 0))
		for _, r := range rs.Rest() {
			if err := r.Cancel(); err != nil {
				return err
			}
			_, err := r.Wait()
			fmt.Println(errors.Is(err, mpi.ErrCanceled))
		}
		return nil
	})
	// Output: true
}
