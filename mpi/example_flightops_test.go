package mpi_test

import (
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleIreduce() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		r, err := mpi.Ireduce(c, send, recv, mpi.Sum, 0)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 0, recv[0], err)
	})
	// Output: 6
}

func ExampleReduceInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		p, err := mpi.ReduceInit(c, send, recv, mpi.Sum, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] += step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 0, recv[0], p.Free())
	})
	// Output: 15
}

func ExampleIallreduce() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		r, err := mpi.Iallreduce(c, send, recv, mpi.Max)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv[0], err)
	})
	// Output: 3
}

func ExampleAllreduceInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		p, err := mpi.AllreduceInit(c, send, recv, mpi.Max)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] += step
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 1, recv[0], p.Free())
	})
	// Output: 6
}

func ExampleIreduceScatterBlock() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{1, 2}, []int{0}
		r, err := mpi.IreduceScatterBlock(c, send, recv, mpi.Sum)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv[0], err)
	})
	// Output: 4
}

func ExampleReduceScatterBlockInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{1, 2}, []int{0}
		p, err := mpi.ReduceScatterBlockInit(c, send, recv, mpi.Sum)
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
		return show(c, 1, recv[0], p.Free())
	})
	// Output: 10
}

func ExampleIreduceScatter() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{1, 2, 3}, make([]int, 1+c.Rank())
		r, err := mpi.IreduceScatter(c, send, recv, []int{1, 2}, mpi.Sum)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 1, recv, err)
	})
	// Output: [4 6]
}

func ExampleReduceScatterInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send, recv := []int{1, 2, 3}, make([]int, 1+c.Rank())
		p, err := mpi.ReduceScatterInit(c, send, recv, []int{1, 2}, mpi.Sum)
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
	// Output: [10 6]
}

func ExampleIscan() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		r, err := mpi.Iscan(c, send, recv, mpi.Sum)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 2, recv[0], err)
	})
	// Output: 6
}

func ExampleScanInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		p, err := mpi.ScanInit(c, send, recv, mpi.Sum)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] += step
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

func ExampleIexscan() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		r, err := mpi.Iexscan(c, send, recv, mpi.Sum)
		if err != nil {
			return err
		}
		// ... compute; the buffers are the library's meanwhile ...
		_, err = r.Wait()
		return show(c, 2, recv[0], err)
	})
	// Output: 3
}

func ExampleExscanInit() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send, recv := []int{c.Rank() + 1}, []int{0}
		p, err := mpi.ExscanInit(c, send, recv, mpi.Sum)
		if err != nil {
			return err
		}
		for step := range 3 {
			send[0] += step
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
	// Output: 9
}
