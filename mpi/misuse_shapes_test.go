package mpi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// shape is a collective from one buffer to another, of so many elements for two ranks. A call with one buffer gets recv.
type shape[T any] struct {
	name       string
	send, recv int // 0: it has no such buffer
	call       func(send, recv []T) error
}

// shapes are the collectives with buffers, in all forms, for elements of any type. Rank 0 is the root.
func shapes[T any](c *mpi.Comm, ring *mpi.Cart, op mpi.Op[T]) []shape[T] {
	k := []int{1, 1}
	return []shape[T]{
		{"Bcast", 0, 1, func(_, r []T) error { return mpi.Bcast(c, r, 0) }},
		{"Ibcast", 0, 1, func(_, r []T) error { return waited(mpi.Ibcast(c, r, 0)) }},
		{"BcastInit", 0, 1, func(_, r []T) error { return started(mpi.BcastInit(c, r, 0)) }},
		{"BcastValue", 0, 1, func(_, r []T) error { return err1(mpi.BcastValue(c, r[0], 0)) }},
		{"Gather", 1, 2, func(s, r []T) error { return mpi.Gather(c, s, r, 0) }},
		{"Igather", 1, 2, func(s, r []T) error { return waited(mpi.Igather(c, s, r, 0)) }},
		{"GatherInit", 1, 2, func(s, r []T) error { return started(mpi.GatherInit(c, s, r, 0)) }},
		{"GatherInPlace", 0, 2, func(_, r []T) error { return mpi.GatherInPlace(c, r[:2-c.Rank()], 0) }},
		{"GatherAlloc", 0, 1, func(_, r []T) error { return err2(mpi.GatherAlloc(c, r, 0)) }},
		{"Gatherv", 1, 2, func(s, r []T) error { return mpi.Gatherv(c, s, r, k, nil, 0) }},
		{"Igatherv", 1, 2, func(s, r []T) error { return waited(mpi.Igatherv(c, s, r, k, nil, 0)) }},
		{"GathervInit", 1, 2, func(s, r []T) error { return started(mpi.GathervInit(c, s, r, k, nil, 0)) }},
		{"GathervInPlace", 0, 2, func(_, r []T) error { return mpi.GathervInPlace(c, r[:2-c.Rank()], k, nil, 0) }},
		{"Scatter", 2, 1, func(s, r []T) error { return mpi.Scatter(c, s, r, 0) }},
		{"Iscatter", 2, 1, func(s, r []T) error { return waited(mpi.Iscatter(c, s, r, 0)) }},
		{"ScatterInit", 2, 1, func(s, r []T) error { return started(mpi.ScatterInit(c, s, r, 0)) }},
		{"ScatterInPlace", 0, 2, func(_, r []T) error { return mpi.ScatterInPlace(c, r[:2-c.Rank()], 0) }},
		{"Scatterv", 2, 1, func(s, r []T) error { return mpi.Scatterv(c, s, k, nil, r, 0) }},
		{"Iscatterv", 2, 1, func(s, r []T) error { return waited(mpi.Iscatterv(c, s, k, nil, r, 0)) }},
		{"ScattervInit", 2, 1, func(s, r []T) error { return started(mpi.ScattervInit(c, s, k, nil, r, 0)) }},
		{"ScattervInPlace", 0, 2, func(_, r []T) error { return mpi.ScattervInPlace(c, r[:2-c.Rank()], k, nil, 0) }},
		{"Allgather", 1, 2, func(s, r []T) error { return mpi.Allgather(c, s, r) }},
		{"Iallgather", 1, 2, func(s, r []T) error { return waited(mpi.Iallgather(c, s, r)) }},
		{"AllgatherInit", 1, 2, func(s, r []T) error { return started(mpi.AllgatherInit(c, s, r)) }},
		{"AllgatherInPlace", 0, 2, func(_, r []T) error { return mpi.AllgatherInPlace(c, r) }},
		{"AllgatherAlloc", 0, 1, func(_, r []T) error { return err2(mpi.AllgatherAlloc(c, r)) }},
		{"Allgatherv", 1, 2, func(s, r []T) error { return mpi.Allgatherv(c, s, r, k, nil) }},
		{"Iallgatherv", 1, 2, func(s, r []T) error { return waited(mpi.Iallgatherv(c, s, r, k, nil)) }},
		{"AllgathervInit", 1, 2, func(s, r []T) error { return started(mpi.AllgathervInit(c, s, r, k, nil)) }},
		{"AllgathervInPlace", 0, 2, func(_, r []T) error { return mpi.AllgathervInPlace(c, r, k, nil) }},
		{"Alltoall", 2, 2, func(s, r []T) error { return mpi.Alltoall(c, s, r) }},
		{"Ialltoall", 2, 2, func(s, r []T) error { return waited(mpi.Ialltoall(c, s, r)) }},
		{"AlltoallInit", 2, 2, func(s, r []T) error { return started(mpi.AlltoallInit(c, s, r)) }},
		{"AlltoallInPlace", 0, 2, func(_, r []T) error { return mpi.AlltoallInPlace(c, r) }},
		{"AlltoallAlloc", 0, 2, func(_, r []T) error { return err1(mpi.AlltoallAlloc(c, [][]T{r, r})) }},
		{"Alltoallv", 2, 2, func(s, r []T) error { return mpi.Alltoallv(c, s, k, nil, r, k, nil) }},
		{"Ialltoallv", 2, 2, func(s, r []T) error { return waited(mpi.Ialltoallv(c, s, k, nil, r, k, nil)) }},
		{"AlltoallvInit", 2, 2, func(s, r []T) error { return started(mpi.AlltoallvInit(c, s, k, nil, r, k, nil)) }},
		{"AlltoallvInPlace", 0, 2, func(_, r []T) error { return mpi.AlltoallvInPlace(c, r, k, nil) }},
		{"Alltoallw", 2, 2, func(s, r []T) error { return mpi.Alltoallw(c, singles(s), singles(r)) }},
		{"Ialltoallw", 2, 2, func(s, r []T) error { return waited(mpi.Ialltoallw(c, singles(s), singles(r))) }},
		{"AlltoallwInit", 2, 2, func(s, r []T) error { return started(mpi.AlltoallwInit(c, singles(s), singles(r))) }},
		{"Reduce", 2, 2, func(s, r []T) error { return mpi.Reduce(c, s, r, op, 0) }},
		{"Ireduce", 2, 2, func(s, r []T) error { return waited(mpi.Ireduce(c, s, r, op, 0)) }},
		{"ReduceInit", 2, 2, func(s, r []T) error { return started(mpi.ReduceInit(c, s, r, op, 0)) }},
		{"ReduceInPlace", 0, 2, func(_, r []T) error { return mpi.ReduceInPlace(c, r, op, 0) }},
		{"ReduceValue", 0, 1, func(_, r []T) error { return err1(mpi.ReduceValue(c, r[0], op, 0)) }},
		{"Allreduce", 2, 2, func(s, r []T) error { return mpi.Allreduce(c, s, r, op) }},
		{"Iallreduce", 2, 2, func(s, r []T) error { return waited(mpi.Iallreduce(c, s, r, op)) }},
		{"AllreduceInit", 2, 2, func(s, r []T) error { return started(mpi.AllreduceInit(c, s, r, op)) }},
		{"AllreduceInPlace", 0, 2, func(_, r []T) error { return mpi.AllreduceInPlace(c, r, op) }},
		{"AllreduceValue", 0, 1, func(_, r []T) error { return err1(mpi.AllreduceValue(c, r[0], op)) }},
		{"ReduceScatterBlock", 2, 1, func(s, r []T) error { return mpi.ReduceScatterBlock(c, s, r, op) }},
		{"IreduceScatterBlock", 2, 1, func(s, r []T) error { return waited(mpi.IreduceScatterBlock(c, s, r, op)) }},
		{"ReduceScatterBlockInit", 2, 1, func(s, r []T) error { return started(mpi.ReduceScatterBlockInit(c, s, r, op)) }},
		{"ReduceScatterBlockInPlace", 0, 2, func(_, r []T) error { return mpi.ReduceScatterBlockInPlace(c, r, op) }},
		{"ReduceScatter", 2, 1, func(s, r []T) error { return mpi.ReduceScatter(c, s, r, k, op) }},
		{"IreduceScatter", 2, 1, func(s, r []T) error { return waited(mpi.IreduceScatter(c, s, r, k, op)) }},
		{"ReduceScatterInit", 2, 1, func(s, r []T) error { return started(mpi.ReduceScatterInit(c, s, r, k, op)) }},
		{"ReduceScatterInPlace", 0, 2, func(_, r []T) error { return mpi.ReduceScatterInPlace(c, r, k, op) }},
		{"Scan", 2, 2, func(s, r []T) error { return mpi.Scan(c, s, r, op) }},
		{"Iscan", 2, 2, func(s, r []T) error { return waited(mpi.Iscan(c, s, r, op)) }},
		{"ScanInit", 2, 2, func(s, r []T) error { return started(mpi.ScanInit(c, s, r, op)) }},
		{"ScanInPlace", 0, 2, func(_, r []T) error { return mpi.ScanInPlace(c, r, op) }},
		{"ScanValue", 0, 1, func(_, r []T) error { return err1(mpi.ScanValue(c, r[0], op)) }},
		{"Exscan", 2, 2, func(s, r []T) error { return mpi.Exscan(c, s, r, op) }},
		{"Iexscan", 2, 2, func(s, r []T) error { return waited(mpi.Iexscan(c, s, r, op)) }},
		{"ExscanInit", 2, 2, func(s, r []T) error { return started(mpi.ExscanInit(c, s, r, op)) }},
		{"ExscanInPlace", 0, 2, func(_, r []T) error { return mpi.ExscanInPlace(c, r, op) }},
		{"NeighborAllgather", 1, 2, func(s, r []T) error { return mpi.NeighborAllgather(ring, s, r) }},
		{"IneighborAllgather", 1, 2, func(s, r []T) error { return waited(mpi.IneighborAllgather(ring, s, r)) }},
		{"NeighborAllgatherInit", 1, 2, func(s, r []T) error { return started(mpi.NeighborAllgatherInit(ring, s, r)) }},
		{"NeighborAllgatherv", 1, 2, func(s, r []T) error { return mpi.NeighborAllgatherv(ring, s, r, k, nil) }},
		{"IneighborAllgatherv", 1, 2, func(s, r []T) error { return waited(mpi.IneighborAllgatherv(ring, s, r, k, nil)) }},
		{"NeighborAllgathervInit", 1, 2, func(s, r []T) error { return started(mpi.NeighborAllgathervInit(ring, s, r, k, nil)) }},
		{"NeighborAlltoall", 2, 2, func(s, r []T) error { return mpi.NeighborAlltoall(ring, s, r) }},
		{"IneighborAlltoall", 2, 2, func(s, r []T) error { return waited(mpi.IneighborAlltoall(ring, s, r)) }},
		{"NeighborAlltoallInit", 2, 2, func(s, r []T) error { return started(mpi.NeighborAlltoallInit(ring, s, r)) }},
		{"NeighborAlltoallv", 2, 2, func(s, r []T) error { return mpi.NeighborAlltoallv(ring, s, k, nil, r, k, nil) }},
		{"IneighborAlltoallv", 2, 2, func(s, r []T) error { return waited(mpi.IneighborAlltoallv(ring, s, k, nil, r, k, nil)) }},
		{"NeighborAlltoallvInit", 2, 2, func(s, r []T) error { return started(mpi.NeighborAlltoallvInit(ring, s, k, nil, r, k, nil)) }},
		{"NeighborAlltoallw", 2, 2, func(s, r []T) error { return mpi.NeighborAlltoallw(ring, singles(s), singles(r)) }},
		{"IneighborAlltoallw", 2, 2, func(s, r []T) error { return waited(mpi.IneighborAlltoallw(ring, singles(s), singles(r))) }},
		{"NeighborAlltoallwInit", 2, 2, func(s, r []T) error {
			return started(mpi.NeighborAlltoallwInit(ring, singles(s), singles(r)))
		}},
	}
}

// Every collective with buffers refuses elements that are no values, and buffers of which a part is in both.
func TestMisusedBuffers(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 2, func(c *mpi.Comm) error {
		never := mpi.OpFunc(func(dst, src []*int) { panic("combined") }, true)
		for _, x := range shapes(c, ring(c), never) {
			if err := x.call(make([]*int, x.send), make([]*int, x.recv)); !errors.Is(err, mpi.ErrType) {
				return fmt.Errorf("%s of pointers: %v", x.name, err)
			}
		}
		for i, x := range shapes(c, ring(c), mpi.Sum[int]) {
			if err := x.call(make([]int, x.send), make([]int, x.recv)); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			if x.send == 0 || strings.Contains(x.name, "lltoallw") { // views are not compared
				continue
			}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			b := make([]int, x.send+x.recv)
			s, r := b[x.recv-1:][:x.send], b[:x.recv]
			if x.send > x.recv {
				s, r = b[:x.send], b[x.send-1:][:x.recv] // at the beginning it would be in place
			}
			err = shapes(d, ring(d), mpi.Sum[int])[i].call(s, r)
			for c.Rank() != 0 && err == nil { // where no root is it may be right, and have needed nobody
				err = mpi.Barrier(d)
			}
			told := c.Rank() != 0 && errors.Is(err, mpi.ErrMismatch)
			if !errors.Is(err, mpi.ErrBuffer) && !told {
				return fmt.Errorf("%s of buffers that overlap: %w", x.name, err)
			}
			if err := d.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Every call about a message refuses elements that are no values.
func TestMisusedTypes(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		p, null := make([]*int, 2), mpi.ProcNull
		v := mpi.View[*int]{p, mpi.Contiguous(1)}
		return wantAll(mpi.ErrType, mpi.Send(c, p, null, 0), mpi.Ssend(c, p, null, 0), mpi.Rsend(c, p, null, 0), mpi.Bsend(c, p, null, 0),
			err1(mpi.Isend(c, p, null, 0)), err1(mpi.Issend(c, p, null, 0)), err1(mpi.Ibsend(c, p, null, 0)),
			err1(mpi.SendInit(c, p, null, 0)), err1(mpi.SsendInit(c, p, null, 0)), err1(mpi.BsendInit(c, p, null, 0)), err1(mpi.RsendInit(c, p, null, 0)),
			mpi.SendValue(c, p[0], null, 0), mpi.SendView(c, v, null, 0), mpi.SsendView(c, v, null, 0),
			err1(mpi.IsendView(c, v, null, 0)), err1(mpi.IssendView(c, v, null, 0)), err1(mpi.SendViewInit(c, v, null, 0)), err1(mpi.SsendViewInit(c, v, null, 0)),
			err1(mpi.Recv(c, p, null, 0)), err1(mpi.Irecv(c, p, null, 0)), err1(mpi.RecvInit(c, p, null, 0)), err2(mpi.RecvValue[*int](c, null, 0)),
			err2(mpi.RecvAlloc[*int](c, null, 0)), err1(mpi.RecvView(c, v, null, 0)), err1(mpi.IrecvView(c, v, null, 0)), err1(mpi.RecvViewInit(c, v, null, 0)),
			err1(mpi.SendrecvReplace(c, p, null, 0, null, 0)), err1(mpi.Sendrecv(c, p, null, 0, unit, null, 0)), err1(mpi.Sendrecv(c, unit, null, 0, p, null, 0)),
			err1(mpi.Isendrecv(c, p, null, 0, unit, null, 0)), err1(mpi.Isendrecv(c, unit, null, 0, p, null, 0)),
			err1(mpi.SendrecvView(c, v, null, 0, spread(), null, 0)), err1(mpi.SendrecvView(c, spread(), null, 0, v, null, 0)))
	})
}
