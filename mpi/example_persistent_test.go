package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleSendInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{0}
		if c.Rank() == 1 {
			for range 3 {
				if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
					return err
				}
				fmt.Println(buf[0])
			}
			return nil
		}
		p, err := mpi.SendInit(c, buf, 1, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			buf[0] = 10 * step
			r, err := p.Start()
			if err != nil {
				return err
			}
			// ... compute; buf is the library's meanwhile ...
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return p.Free()
	})
	// Output:
	// 0
	// 10
	// 20
}

func ExampleSsendInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{0}
		if c.Rank() == 1 {
			for range 3 {
				if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
					return err
				}
				fmt.Println(buf[0])
			}
			return nil
		}
		p, err := mpi.SsendInit(c, buf, 1, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			buf[0] = 10 * step
			r, err := p.Start()
			if err != nil {
				return err
			}
			// Wait returns when the message is being received
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return p.Free()
	})
	// Output:
	// 0
	// 10
	// 20
}

func ExampleRsendInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{0}
		if c.Rank() == 1 {
			for range 3 {
				if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
					return err
				}
				fmt.Println(buf[0])
			}
			return nil
		}
		p, err := mpi.RsendInit(c, buf, 1, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			buf[0] = 10 * step
			r, err := p.Start()
			if err != nil {
				return err
			}
			// as SendInit
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return p.Free()
	})
	// Output:
	// 0
	// 10
	// 20
}

func ExampleBsendInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{0}
		if c.Rank() == 1 {
			for range 3 {
				if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
					return err
				}
				fmt.Println(buf[0])
			}
			return nil
		}
		p, err := mpi.BsendInit(c, buf, 1, 0)
		if err != nil {
			return err
		}
		for step := range 3 {
			buf[0] = 10 * step
			r, err := p.Start()
			if err != nil {
				return err
			}
			buf[0] = -1 // the start has copied it
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return p.Free()
	})
	// Output:
	// 0
	// 10
	// 20
}

func ExampleRecvInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return all(mpi.Send(c, []int{1}, 1, 0), mpi.Send(c, []int{2}, 1, 0))
		}
		got := []int{0}
		p, err := mpi.RecvInit(c, got, mpi.AnySource, 0)
		if err != nil {
			return err
		}
		for range 2 {
			r, err := p.Start()
			if err != nil {
				return err
			}
			st, err := r.Wait()
			if err != nil {
				return err
			}
			fmt.Println(got[0], "from rank", st.Source)
		}
		return p.Free()
	})
	// Output:
	// 1 from rank 0
	// 2 from rank 0
}

func ExamplePersistent_Start() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		residual, largest := []float64{0}, []float64{0}
		p, err := mpi.AllreduceInit(c, residual, largest, mpi.Max)
		if err != nil {
			return err
		}
		steps := 0
		for largest[0] = 1; largest[0] > 0.1; steps++ {
			residual[0] = float64(c.Rank()+1) / float64(steps+1) // ... of this step ...
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		return show(c, 0, fmt.Sprint(steps, " steps"), p.Free())
	})
	// Output: 20 steps
}

func ExamplePersistent_Free() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		p, err := mpi.BarrierInit(c)
		if err != nil {
			return err
		}
		if err := p.Free(); err != nil { // each rank, when it no longer needs it
			return err
		}
		_, err = p.Start()
		return show(c, 0, err != nil, nil)
	})
	// Output: true
}

func ExampleStartall() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		out, in := []int{c.Rank()}, []int{0}
		recv, err := mpi.RecvInit(c, in, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		send, err := mpi.SendInit(c, out, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		ps := []*mpi.Persistent{recv, send}
		rs := make([]mpi.Request, len(ps))
		for range 3 {
			if err := mpi.Startall(ps, rs); err != nil {
				return err
			}
			if err := mpi.WaitallInto(rs, nil); err != nil {
				return err
			}
			out[0] = in[0] + 1
		}
		return show(c, 0, in[0], all(send.Free(), recv.Free()))
	})
	// Output: 3
}
