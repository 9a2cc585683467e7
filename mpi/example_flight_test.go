package mpi_test

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleIbarrier() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		r, err := mpi.Ibarrier(c)
		if err != nil {
			return err
		}
		for !r.Completed() { // until all ranks are there
			time.Sleep(time.Millisecond) // ... compute ...
		}
		_, err = r.Wait()
		return show(c, 0, "all are there", err)
	})
	// Output: all are there
}

func ExampleBarrierInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		p, err := mpi.BarrierInit(c)
		if err != nil {
			return err
		}
		for range 2 {
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println("all are there, twice")
		}
		return p.Free()
	})
	// Output: all are there, twice
}

func ExampleIbcast() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []int{c.Rank()}
		r, err := mpi.Ibcast(c, buf, 2)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 0, buf[0], err)
	})
	// Output: 2
}

func ExampleBcastInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []int{c.Rank()}
		p, err := mpi.BcastInit(c, buf, 2)
		if err != nil {
			return err
		}
		for step := range 3 {
			if c.Rank() == 2 {
				buf[0] = 10 * step
			}
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 0, buf[0], p.Free())
	})
	// Output: 20
}

func ExampleIgather() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() * c.Rank()}, make([]int, 3)
		r, err := mpi.Igather(c, send, recv, 0)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 0, recv, err)
	})
	// Output: [0 1 4]
}

func ExampleGatherInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() * c.Rank()}, make([]int, 3)
		p, err := mpi.GatherInit(c, send, recv, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] = c.Rank() + step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 0, recv, p.Free())
	})
	// Output: [2 3 4]
}

func ExampleIgatherv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte([]string{"a", "bcd"}[c.Rank()])
		recv := make([]byte, 4)
		r, err := mpi.Igatherv(c, send, recv, []int{1, 3}, nil, 0)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 0, string(recv), err)
	})
	// Output: abcd
}

func ExampleGathervInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte([]string{"a", "bcd"}[c.Rank()])
		recv := make([]byte, 4)
		p, err := mpi.GathervInit(c, send, recv, []int{1, 3}, nil, 0)
		if err != nil {
			return err
		}
		for range 3 {
			send[0]++
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 0, string(recv), p.Free())
	})
	// Output: decd
}

func ExampleIscatter() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{10, 11, 12}, []int{0}
		r, err := mpi.Iscatter(c, send, recv, 0)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 2, recv[0], err)
	})
	// Output: 12
}

func ExampleScatterInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{10, 11, 12}, []int{0}
		p, err := mpi.ScatterInit(c, send, recv, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[2] += step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 2, recv[0], p.Free())
	})
	// Output: 15
}

func ExampleIscatterv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte("abcd")
		recv := make([]byte, 1+2*c.Rank())
		r, err := mpi.Iscatterv(c, send, []int{1, 3}, nil, recv, 0)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, string(recv), err)
	})
	// Output: bcd
}

func ExampleScattervInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte("abcd")
		recv := make([]byte, 1+2*c.Rank())
		p, err := mpi.ScattervInit(c, send, []int{1, 3}, nil, recv, 0)
		if err != nil {
			return err
		}
		for range 3 {
			send[3]++
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, string(recv), p.Free())
	})
	// Output: bcg
}

func ExampleIallgather() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, make([]int, 3)
		r, err := mpi.Iallgather(c, send, recv)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv, err)
	})
	// Output: [1 2 3]
}

func ExampleAllgatherInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, make([]int, 3)
		p, err := mpi.AllgatherInit(c, send, recv)
		if err != nil {
			return err
		}
		for range 3 {
			send[0] *= 2
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, recv, p.Free())
	})
	// Output: [8 16 24]
}

func ExampleIallgatherv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte([]string{"a", "bcd"}[c.Rank()])
		recv := make([]byte, 4)
		r, err := mpi.Iallgatherv(c, send, recv, []int{1, 3}, nil)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, string(recv), err)
	})
	// Output: abcd
}

func ExampleAllgathervInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []byte([]string{"a", "bcd"}[c.Rank()])
		recv := make([]byte, 4)
		p, err := mpi.AllgathervInit(c, send, recv, []int{1, 3}, nil)
		if err != nil {
			return err
		}
		for range 3 {
			send[0]++
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, string(recv), p.Free())
	})
	// Output: decd
}

func ExampleIalltoall() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2}, make([]int, 3)
		r, err := mpi.Ialltoall(c, send, recv)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv, err)
	})
	// Output: [1 11 21]
}

func ExampleAlltoallInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2}, make([]int, 3)
		p, err := mpi.AlltoallInit(c, send, recv)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[1] += step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, recv, p.Free())
	})
	// Output: [4 14 24]
}

func ExampleIalltoallv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{7, 8, 9}, make([]int, 2+2*c.Rank())
		to, from := []int{1, 2}, []int{1 + c.Rank(), 1 + c.Rank()}
		r, err := mpi.Ialltoallv(c, send, to, nil, recv, from, nil)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv, err)
	})
	// Output: [8 9 8 9]
}

func ExampleAlltoallvInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{7, 8, 9}, make([]int, 2+2*c.Rank())
		to, from := []int{1, 2}, []int{1 + c.Rank(), 1 + c.Rank()}
		p, err := mpi.AlltoallvInit(c, send, to, nil, recv, from, nil)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[2] += step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, recv, p.Free())
	})
	// Output: [8 12 8 12]
}
