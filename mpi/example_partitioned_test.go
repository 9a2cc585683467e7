package mpi_test

import (
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExamplePsendInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := make([]int, 4)
		if c.Rank() == 1 {
			p, err := mpi.PrecvInit(c, buf, 1, 0, 0) // all at once
			if err != nil {
				return err
			}
			r, err := p.Start()
			if err != nil {
				return err
			}
			_, err = r.Wait()
			fmt.Println(buf)
			return all(err, p.Free())
		}
		p, err := mpi.PsendInit(c, buf, 4, 1, 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		var workers sync.WaitGroup
		for i := range buf {
			workers.Go(func() {
				buf[i] = i * i
				_ = p.Ready(i) // what goes wrong is told by Wait
			})
		}
		workers.Wait()
		_, err = r.Wait()
		return all(err, p.Free())
	})
	// Output: [0 1 4 9]
}

func ExamplePrecvInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{1, 2, 3, 4}
		if c.Rank() == 0 {
			p, err := mpi.PsendInit(c, buf, 1, 1, 0)
			if err != nil {
				return err
			}
			r, err := p.Start()
			if err := all(err, p.Ready(0)); err != nil {
				return err
			}
			_, err = r.Wait()
			return all(err, p.Free())
		}
		got := make([]int, 4)
		p, err := mpi.PrecvInit(c, got, 2, 0, 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		st, err := r.Wait()
		fmt.Println(got, st.Count, "elements")
		return all(err, p.Free())
	})
	// Output: [1 2 3 4] 4 elements
}

func ExamplePartitioned_Start() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf, peer := []int{0}, 1-c.Rank()
		init := mpi.PsendInit[int]
		if c.Rank() == 1 {
			init = mpi.PrecvInit[int]
		}
		p, err := init(c, buf, 1, peer, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			r, err := p.Start()
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				buf[0] = step * step
				if err := p.Ready(0); err != nil {
					return err
				}
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
			if c.Rank() == 1 {
				fmt.Println(buf[0])
			}
		}
		return p.Free()
	})
	// Output:
	// 0
	// 1
	// 4
}

func ExamplePartitioned_Ready() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := make([]int, 4)
		if c.Rank() == 1 {
			p, err := mpi.PrecvInit(c, buf, 4, 0, 0)
			if err != nil {
				return err
			}
			r, err := p.Start()
			if err != nil {
				return err
			}
			_, err = r.Wait()
			fmt.Println(buf)
			return all(err, p.Free())
		}
		p, err := mpi.PsendInit(c, buf, 4, 1, 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		for i := range 4 { // the boundary first
			buf[3-i] = 10 * i
			if err := p.Ready(3 - i); err != nil {
				return err
			}
		}
		_, err = r.Wait()
		return all(err, p.Free())
	})
	// Output: [30 20 10 0]
}

func ExamplePartitioned_Arrived() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{7, 8}
		if c.Rank() == 0 {
			p, err := mpi.PsendInit(c, buf, 2, 1, 0)
			if err != nil {
				return err
			}
			r, err := p.Start()
			if err := all(err, p.Ready(1)); err != nil {
				return err
			}
			if _, err := mpi.Recv(c, []int{0}, 1, 1); err != nil { // the other has used part 1
				return err
			}
			if err := p.Ready(0); err != nil {
				return err
			}
			_, err = r.Wait()
			return all(err, p.Free())
		}
		got := make([]int, 2)
		p, err := mpi.PrecvInit(c, got, 2, 0, 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		for here := false; !here; { // ... compute what needs no part ...
			if here, err = p.Arrived(1); err != nil {
				return err
			}
		}
		fmt.Println("part 1:", got[1])
		if err := mpi.Send(c, []int{0}, 0, 1); err != nil {
			return err
		}
		_, err = r.Wait()
		fmt.Println("all:", got)
		return all(err, p.Free())
	})
	// Output:
	// part 1: 8
	// all: [7 8]
}

func ExamplePartitioned_Free() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		p, err := mpi.PsendInit(c, make([]int, 2), 2, mpi.ProcNull, 0)
		if err != nil {
			return err
		}
		if err := p.Free(); err != nil {
			return err
		}
		_, err = p.Start()
		return show(c, 0, err != nil, nil)
	})
	// Output: true
}
