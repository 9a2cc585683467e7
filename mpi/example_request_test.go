package mpi_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleIsend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		other, got := 1-c.Rank(), []int{0}
		r, err := mpi.Irecv(c, got, other, 0)
		if err != nil {
			return err
		}
		s, err := mpi.Isend(c, []int{c.Rank()}, other, 0)
		if err != nil {
			return err
		}
		// ... compute; got and the sent slice are the library's meanwhile ...
		if _, err := mpi.Waitall([]mpi.Request{r, s}); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(got)
		}
		return nil
	})
	// Output: [1]
}

func ExampleIrecv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{42}, 1, 0)
		}
		buf := []int{0}
		r, err := mpi.Irecv(c, buf, 0, 0)
		if err != nil {
			return err
		}
		st, err := r.Wait() // now buf is the program's again
		fmt.Println(buf, "from rank", st.Source)
		return err
	})
	// Output: [42] from rank 0
}

func ExampleWaitall() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		if c.Rank() > 0 {
			return mpi.SendValue(c, c.Rank()*c.Rank(), 0, 0)
		}
		squares, rs := make([]int, 3), make([]mpi.Request, 3)
		for r := 1; r < c.Size(); r++ { // rs[0] stays inactive
			var err error
			if rs[r], err = mpi.Irecv(c, squares[r:r+1], r, 0); err != nil {
				return err
			}
		}
		sts, err := mpi.Waitall(rs)
		fmt.Println(squares, sts[2].Source)
		return err
	})
	// Output: [0 1 4] 2
}

func ExampleIssend() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		s, err := mpi.Issend(c, []int{1}, 0, 0)
		if err != nil {
			return err
		}
		fmt.Println("before the receive:", s.Completed())
		if _, err := mpi.Recv(c, []int{0}, 0, 0); err != nil {
			return err
		}
		_, err = s.Wait()
		return err
	})
	// Output: before the receive: false
}

func ExampleRequest_Wait() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		buf := make([]int, 3)
		r, err := mpi.Irecv(c, buf, 0, 0)
		if err != nil {
			return err
		}
		if err := mpi.Send(c, []int{1, 2}, 0, 0); err != nil {
			return err
		}
		st, err := r.Wait()
		fmt.Println(st.Count, err)
		_, err = r.Wait() // it is gone
		fmt.Println(errors.Is(err, mpi.ErrRequest))
		return nil
	})
	// Output:
	// 2 <nil>
	// true
}

func ExampleRequest_Test() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		r, err := mpi.Irecv(c, []int{0}, 0, 0)
		if err != nil {
			return err
		}
		_, done, err := r.Test()
		fmt.Println(done, err)
		if err := mpi.SendValue(c, 1, 0, 0); err != nil {
			return err
		}
		_, done, err = r.Test()
		fmt.Println(done, err)
		return nil
	})
	// Output:
	// false <nil>
	// true <nil>
}

func ExampleRequest_Completed() {
	var inactive mpi.Request
	fmt.Println(inactive.Completed())
	// Output: true
}

func ExampleRequest_Cancel() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		r, err := mpi.Irecv(c, []int{0}, 0, 0)
		if err != nil {
			return err
		}
		if err := r.Cancel(); err != nil {
			return err
		}
		_, err = r.Wait()
		fmt.Println(errors.Is(err, mpi.ErrCanceled))
		return nil
	})
	// Output: true
}

// several makes three receives and sends what completes the second.
func several(c *mpi.Comm) ([]mpi.Request, error) {
	rs := make([]mpi.Request, 3)
	for i := range rs {
		var err error
		if rs[i], err = mpi.Irecv(c, []int{0}, 0, i); err != nil {
			return nil, err
		}
	}
	return rs, mpi.SendValue(c, 1, 0, 1)
}

// cancelAll ends what is left of them.
func cancelAll(rs []mpi.Request) error {
	for _, r := range rs {
		if err := r.Cancel(); err != nil {
			return err
		}
	}
	if _, err := mpi.Waitall(rs); !errors.Is(err, mpi.ErrCanceled) {
		return err
	}
	return nil
}

func ExampleWaitany() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs, err := several(c)
		if err != nil {
			return err
		}
		i, st, err := mpi.Waitany(rs)
		fmt.Println(i, st.Tag, err)
		return cancelAll(rs)
	})
	// Output: 1 1 <nil>
}

func ExampleWaitsome() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs, err := several(c)
		if err != nil {
			return err
		}
		is, sts, err := mpi.Waitsome(rs)
		fmt.Println(is, sts[0].Count, err)
		return cancelAll(rs)
	})
	// Output: [1] 1 <nil>
}

func ExampleTestany() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs, err := several(c)
		if err != nil {
			return err
		}
		i, _, ok, err := mpi.Testany(rs)
		fmt.Println(i, ok, err)
		_, _, ok, err = mpi.Testany(rs)
		fmt.Println(ok, err)
		return cancelAll(rs)
	})
	// Output:
	// 1 true <nil>
	// false <nil>
}

func ExampleTestsome() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs, err := several(c)
		if err != nil {
			return err
		}
		is, _, err := mpi.Testsome(rs)
		fmt.Println(is, err)
		return cancelAll(rs)
	})
	// Output: [1] <nil>
}

func ExampleTestall() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs, err := several(c)
		if err != nil {
			return err
		}
		_, ok, err := mpi.Testall(rs)
		fmt.Println(ok, err)
		if err := all(mpi.SendValue(c, 1, 0, 0), mpi.SendValue(c, 1, 0, 2)); err != nil {
			return err
		}
		_, ok, err = mpi.Testall(rs)
		fmt.Println(ok, err)
		return nil
	})
	// Output:
	// false <nil>
	// true <nil>
}

func ExampleWaitallInto() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rs := make([]mpi.Request, 1) // kept from round to round: nothing is allocated
		buf := []int{0}
		for i := range 3 {
			var err error
			if rs[0], err = mpi.Irecv(c, buf, 0, 0); err != nil {
				return err
			}
			if err := all(mpi.SendValue(c, i, 0, 0), mpi.WaitallInto(rs, nil)); err != nil {
				return err
			}
			fmt.Print(buf[0], " ")
		}
		return nil
	})
	// Output: 0 1 2
}
