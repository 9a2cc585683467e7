package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleComm_Probe() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int16{1, 2, 3}, 1, 5)
		}
		st, err := c.Probe(mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		buf := make([]int16, st.Count) // as long as the message
		_, err = mpi.Recv(c, buf, st.Source, st.Tag)
		fmt.Println(st.Source, st.Tag, buf)
		return err
	})
	// Output: 0 5 [1 2 3]
}

func ExampleComm_Iprobe() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		_, ok, err := c.Iprobe(mpi.AnySource, mpi.AnyTag)
		fmt.Println(ok, err)
		return nil
	})
	// Output: false <nil>
}

func ExampleComm_Mprobe() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{4, 5}, 1, 0)
		}
		m, st, err := c.Mprobe(0, 0) // no other goroutine can take it now
		if err != nil {
			return err
		}
		buf := make([]int, st.Count)
		_, err = mpi.Mrecv(m, buf)
		fmt.Println(buf)
		return err
	})
	// Output: [4 5]
}

func ExampleMrecv() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		if err := mpi.Send(c, []byte("hello"), 0, 3); err != nil {
			return err
		}
		m, st, err := c.Mprobe(mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		text := make([]byte, st.Bytes)
		st, err = mpi.Mrecv(m, text)
		fmt.Println(string(text), st.Tag)
		return err
	})
	// Output: hello 3
}

func ExampleComm_Improbe() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		if err := mpi.SendValue(c, 9, 0, 0); err != nil {
			return err
		}
		m, _, ok, err := c.Improbe(0, 0)
		if err != nil || !ok {
			return fmt.Errorf("no message: %w", err)
		}
		buf := []int{0}
		r, err := mpi.Imrecv(m, buf)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		fmt.Println(buf)
		return err
	})
	// Output: [9]
}

func ExampleImrecv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{2, 3, 5}, 1, 0)
		}
		m, st, err := c.Mprobe(0, 0)
		if err != nil {
			return err
		}
		primes := make([]int, st.Count)
		r, err := mpi.Imrecv(m, primes)
		if err != nil {
			return err
		}
		// ... compute; primes is the library's meanwhile ...
		_, err = r.Wait()
		fmt.Println(primes)
		return err
	})
	// Output: [2 3 5]
}

func ExampleCountOf() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		if err := mpi.Send(c, make([]point, 3), 0, 0); err != nil {
			return err
		}
		st, err := c.Probe(0, 0)
		fmt.Println(st.Count == mpi.Undefined, mpi.CountOf[point](st)) // of structs a probe knows only the bytes
		if err == nil {
			_, err = mpi.Recv(c, make([]point, 3), 0, 0)
		}
		return err
	})
	// Output: true 3
}
