package mpi_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleSend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []float64{1, 2, 3}, 1, 7)
		}
		buf := make([]float64, 10)
		st, err := mpi.Recv(c, buf, 0, 7)
		fmt.Println(buf[:st.Count])
		return err
	})
	// Output: [1 2 3]
}

func ExampleSsend() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Ssend(c, []byte("taken"), 1, 0) // returns when rank 1 receives
		}
		buf := make([]byte, 5)
		_, err := mpi.Recv(c, buf, 0, 0)
		fmt.Printf("%s\n", buf)
		return err
	})
	// Output: taken
}

func ExampleRecv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		if c.Rank() != 0 {
			return mpi.Send(c, []int{c.Rank() * 10}, 0, c.Rank())
		}
		sum, buf := 0, []int{0}
		for range 2 { // in whatever order they come
			st, err := mpi.Recv(c, buf, mpi.AnySource, mpi.AnyTag)
			if err != nil {
				return err
			}
			if st.Source != st.Tag {
				fmt.Println("strange:", st)
			}
			sum += buf[0]
		}
		fmt.Println(sum)
		return nil
	})
	// Output: 30
}

func ExampleRecv_truncated() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{1, 2, 3}, 1, 0)
		}
		buf := make([]int, 2)
		st, err := mpi.Recv(c, buf, 0, 0)
		fmt.Println(buf, st.Count, errors.Is(err, mpi.ErrTruncate))
		return nil
	})
	// Output: [1 2] 2 true
}

func ExampleRecvAlloc() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []rune("héllo"), 1, 0)
		}
		text, _, err := mpi.RecvAlloc[rune](c, 0, 0)
		fmt.Println(len(text), string(text))
		return err
	})
	// Output: 5 héllo
}

func ExampleSendrecv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		got := []int{0}
		_, err := mpi.Sendrecv(c, []int{c.Rank()}, right, 0, got, left, 0)
		if c.Rank() == 0 {
			fmt.Println("from the left:", got[0])
		}
		return err
	})
	// Output: from the left: 2
}

func ExampleSendrecvReplace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{c.Rank()}
		_, err := mpi.SendrecvReplace(c, buf, 1-c.Rank(), 0, 1-c.Rank(), 0)
		if c.Rank() == 0 {
			fmt.Println(buf)
		}
		return err
	})
	// Output: [1]
}

func ExampleSendValue() {
	type particle struct {
		Position [3]float64
		Charge   int32
	}
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendValue(c, particle{[3]float64{1, 2, 3}, -1}, 1, 0)
		}
		p, _, err := mpi.RecvValue[particle](c, 0, 0)
		fmt.Println(p)
		return err
	})
	// Output: {[1 2 3] -1}
}

func ExampleRecvValue() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendValue(c, 2.5, 1, 9)
		}
		v, st, err := mpi.RecvValue[float64](c, mpi.AnySource, 9)
		fmt.Println(v, "from rank", st.Source)
		return err
	})
	// Output: 2.5 from rank 0
}

func ExampleSendObject() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendObject(c, map[string][]int{"primes": {2, 3, 5}}, 1, 0)
		}
		var m map[string][]int
		_, err := mpi.RecvObject(c, &m, 0, 0)
		fmt.Println(m)
		return err
	})
	// Output: map[primes:[2 3 5]]
}

func ExampleRecvObject() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendObject(c, []string{"north", "south"}, 1, 0)
		}
		var sides []string
		st, err := mpi.RecvObject(c, &sides, 0, mpi.AnyTag)
		fmt.Println(sides, st.Tag)
		return err
	})
	// Output: [north south] 0
}

func ExampleIsendObject() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		other, said := 1-c.Rank(), ""
		var rs mpi.Requests
		rs.Add(mpi.IrecvObject(c, &said, other, 0))
		rs.Add(mpi.IsendObject(c, fmt.Sprint("greetings from ", c.Rank()), other, 0))
		err := rs.Wait()
		if c.Rank() == 0 {
			fmt.Println(said)
		}
		return err
	})
	// Output: greetings from 1
}

func ExampleIrecvObject() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendObject(c, []string{"north", "south"}, 1, 4)
		}
		var sides []string
		r, err := mpi.IrecvObject(c, &sides, 0, mpi.AnyTag)
		if err != nil {
			return err
		}
		st, err := r.Wait()
		fmt.Println(sides, st.Tag)
		return err
	})
	// Output: [north south] 4
}

func ExampleComm_WithCodec() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		c = c.WithCodec(jsonCodec{}) // encoding/json instead of encoding/gob
		if c.Rank() == 0 {
			return mpi.SendObject(c, []string{"a", "b"}, 1, 0)
		}
		var v any
		_, err := mpi.RecvObject(c, &v, 0, 0)
		fmt.Println(v)
		return err
	})
	// Output: [a b]
}
