package mpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// A portable image holds nothing that is begun: the Point refuses it, and names it.
func TestBegunAtAPoint(t *testing.T) {
	for want, begin := range map[string]func(c *mpi.Comm) error{
		"Irecv(source 0, tag 3": func(c *mpi.Comm) error { return err1(mpi.Irecv(c, make([]int, 1), 0, 3)) },
		"Irecv(source 1, tag 4": func(c *mpi.Comm) error {
			p, err := mpi.RecvInit(c, make([]int, 1), 1, 4)
			return all(err, err1(p.Start()))
		},
		"Isend(destination": func(c *mpi.Comm) error { return mpi.Bsend(c, make([]int, 1<<20), 1-c.Rank(), 0) },
		"Iallreduce(call 1) on world": func(c *mpi.Comm) error {
			return err1(mpi.Iallreduce(c, unit, make([]int, 1), mpi.Sum))
		},
		"BarrierInit(call 1) on world": func(c *mpi.Comm) error {
			p, err := mpi.BarrierInit(c)
			return all(err, err1(p.Start()))
		},
		"Ibarrier(call 1) on world complete, not waited for": func(c *mpi.Comm) error {
			r, err := mpi.Ibarrier(c)
			<-r.Done()
			return err
		},
		"Halo.Start(call 1) on world/1": func(c *mpi.Comm) error {
			h, err := mpi.NewHalo(ring(c), make([]int, 6), []int{6}, 1, false)
			return all(err, err1(h.Start()))
		},
		"PsendInit(destination": func(c *mpi.Comm) error {
			p, err := mpi.PsendInit(c, make([]int, 2), 2, 1-c.Rank(), 0)
			return all(err, err1(p.Start()))
		},
		"generalised request": func(c *mpi.Comm) error {
			_, _, err := mpi.NewRequest(c)
			return err
		},
		"message of a matched probe (source": func(c *mpi.Comm) error {
			return all(mpi.Send(c, unit, c.Rank(), 0), err2(c.Mprobe(c.Rank(), 0)))
		},
	} {
		rec := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }()
			mpitest.Restart(rec, 2, 1, func(c *mpi.Comm) error {
				if err := all(cr.On(c).Register("x", new(int)), begin(c), cr.On(c).Point()); err != nil {
					return err
				}
				return err1(mpi.Recv(c, make([]int, 1), mpi.AnySource, 99)) // until the attempt is given up
			})
		}()
		if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "pending at Point 1: "+want) {
			t.Errorf("%s: %q", want, rec.errors)
		}
	}
}

// What is idle at a Point is made again, by the same calls: each goes on with the messages of the other ranks' ones.
func TestIdleAtAPoint(t *testing.T) {
	const steps = 4
	for k := 1; k <= steps; k++ { // the first before anything was started
		mpitest.Restart(t, 3, k, func(c *mpi.Comm) error {
			r := cr.On(c)
			step, n := 0, c.Size()
			right, left := (c.Rank()+1)%n, (c.Rank()+n-1)%n
			out, in, parts := make([]int, 8), make([]int, 8), make([]int, 8)
			sum, row := make([]int, 8), make([]int, 8*n)
			send, err1 := mpi.SendInit(c, out, right, 5)
			recv, err2 := mpi.RecvInit(c, in, left, 5)
			whole, err3 := mpi.PsendInit(c, out, 4, right, 6)
			halves, err4 := mpi.PrecvInit(c, parts, 2, left, 6)
			reduce, err5 := mpi.AllreduceInit(c, out, sum, mpi.Sum)
			gather, err6 := mpi.AllgatherInit(c, out, row)
			if err := all(err1, err2, err3, err4, err5, err6, r.Register("step", &step)); err != nil {
				return err
			}
			of := func(rank int) []int { return values(8, 100*step+rank, func(i int) int { return i }) }
			for ; step < steps; step++ {
				if err := r.Point(); err != nil {
					return err
				}
				copy(out, of(c.Rank()))
				rs := make([]mpi.Request, 6)
				err := mpi.Startall([]*mpi.Persistent{gather, reduce, recv, send}, rs[:4])
				rs[4], err1 = halves.Start()
				rs[5], err2 = whole.Start()
				if err := all(err, err1, err2, whole.Ready(3, 1), whole.Ready(0, 2), mpi.WaitallInto(rs, nil)); err != nil {
					return err
				}
				var every, total = []int{}, make([]int, 8)
				for rank := range n {
					every = append(every, of(rank)...)
					for i, v := range of(rank) {
						total[i] += v
					}
				}
				if !slices.Equal(in, of(left)) || !slices.Equal(parts, of(left)) || !slices.Equal(sum, total) || !slices.Equal(row, every) {
					return fmt.Errorf("step %d: %v, %v, %v, %v", step, in, parts, sum, row)
				}
			}
			return all(send.Free(), recv.Free(), whole.Free(), halves.Free(), reduce.Free(), gather.Free())
		})
	}
}
