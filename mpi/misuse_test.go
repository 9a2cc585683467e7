package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// misuse is a call with an argument that is wrong.
type misuse struct {
	what  string
	class error
	call  func(c *mpi.Comm) error
}

// use is a call of the package, used well and in all wrong ways. Collective calls wait for other ranks.
type use struct {
	name       string
	well       func(c *mpi.Comm) error
	collective bool
	wrong      []misuse
}

func err1[A any](_ A, err error) error                 { return err }
func err2[A, B any](_ A, _ B, err error) error         { return err }
func err3[A, B, C any](_ A, _ B, _ C, err error) error { return err }

// waited ends a request that was begun.
func waited(r mpi.Request, err error) error {
	if err != nil {
		return err
	}
	return err1(r.Wait())
}

// started starts and ends a persistent call.
func started(p *mpi.Persistent, err error) error {
	if err != nil {
		return err
	}
	return all(waited(p.Start()), p.Free())
}

func blocks(c *mpi.Comm, k int) []int { return make([]int, k*max(c.Size(), 1)) }
func ones(c *mpi.Comm) []int          { return slices.Repeat([]int{1}, c.Size()) }

var (
	unit     = make([]int, 1)
	pointers = make([]*int, 3)
)

// spread is a view of elements that do not lie in a row.
func spread() mpi.View[int] { return mpi.View[int]{make([]int, 5), mpi.Vector(3, 1, 2)} }

// ring is the ranks of c one after the other, and around; nil if there is no c.
func ring(c *mpi.Comm) *mpi.Cart {
	t, err := c.Cart([]int{max(c.Size(), 1)}, []bool{true}, false)
	if err != nil {
		return nil
	}
	return t
}

// around is a call on a ring, where a rank has two neighbours. It sends k elements and receives two.
func around(name string, k int, call func(t mpi.Topology, send, recv []int) error, wrong ...misuse) use {
	return everywhere(name, func(c *mpi.Comm) error { return call(ring(c), make([]int, k), make([]int, 2)) }, append(wrong,
		length(func(c *mpi.Comm) error { return call(ring(c), make([]int, k), make([]int, 5)) }),
		overlap(func(c *mpi.Comm) error { b := make([]int, 2); return call(ring(c), b[:k], b) }))...)
}

// ringViews is a call on a ring with views.
func ringViews(name string, call func(t mpi.Topology, send, recv []mpi.View[int]) error) use {
	views := func(l mpi.Layout) []mpi.View[int] {
		return []mpi.View[int]{{make([]int, 3), l}, {make([]int, 3), mpi.Contiguous(2)}}
	}
	fine := mpi.Vector(2, 1, 2)
	return everywhere(name, func(c *mpi.Comm) error { return call(ring(c), views(fine), views(fine)) },
		length(func(c *mpi.Comm) error { return call(ring(c), views(fine)[:1], views(fine)) }),
		misuse{"outside", mpi.ErrLayout, func(c *mpi.Comm) error { return call(ring(c), views(mpi.Contiguous(4)), views(fine)) }},
		misuse{"twice", mpi.ErrLayout, func(c *mpi.Comm) error {
			return call(ring(c), views(fine), views(mpi.Indexed([]int{1, 1}, []int{0, 0})))
		}},
		misuse{"longer than memory", mpi.ErrLayout, func(c *mpi.Comm) error {
			return call(ring(c), views(mpi.Contiguous(1).Repeat(1<<60, 0)), views(fine))
		}})
}

var two = []int{1, 1}

// messages are calls about one message, given a destination or source and a tag.
var messages = map[string]func(c *mpi.Comm, peer, tag int) error{
	"Send":        func(c *mpi.Comm, p, t int) error { return mpi.Send(c, unit, p, t) },
	"Ssend":       func(c *mpi.Comm, p, t int) error { return mpi.Ssend(c, unit, p, t) },
	"Rsend":       func(c *mpi.Comm, p, t int) error { return mpi.Rsend(c, unit, p, t) },
	"Bsend":       func(c *mpi.Comm, p, t int) error { return mpi.Bsend(c, unit, p, t) },
	"Isend":       func(c *mpi.Comm, p, t int) error { return waited(mpi.Isend(c, unit, p, t)) },
	"Issend":      func(c *mpi.Comm, p, t int) error { return waited(mpi.Issend(c, unit, p, t)) },
	"Ibsend":      func(c *mpi.Comm, p, t int) error { return waited(mpi.Ibsend(c, unit, p, t)) },
	"SendInit":    func(c *mpi.Comm, p, t int) error { return started(mpi.SendInit(c, unit, p, t)) },
	"SsendInit":   func(c *mpi.Comm, p, t int) error { return started(mpi.SsendInit(c, unit, p, t)) },
	"RsendInit":   func(c *mpi.Comm, p, t int) error { return started(mpi.RsendInit(c, unit, p, t)) },
	"BsendInit":   func(c *mpi.Comm, p, t int) error { return started(mpi.BsendInit(c, unit, p, t)) },
	"SendValue":   func(c *mpi.Comm, p, t int) error { return mpi.SendValue(c, 1, p, t) },
	"SendObject":  func(c *mpi.Comm, p, t int) error { return mpi.SendObject(c, "x", p, t) },
	"IsendObject": func(c *mpi.Comm, p, t int) error { return waited(mpi.IsendObject(c, "x", p, t)) },
	"IrecvObject": func(c *mpi.Comm, p, t int) error { return waited(mpi.IrecvObject(c, new(string), p, t)) },
	"SendView":    func(c *mpi.Comm, p, t int) error { return mpi.SendView(c, mpi.View[int]{Data: unit}, p, t) },
	"SsendView":   func(c *mpi.Comm, p, t int) error { return mpi.SsendView(c, mpi.View[int]{Data: unit}, p, t) },
	"Recv":        func(c *mpi.Comm, p, t int) error { return err1(mpi.Recv(c, make([]int, 1), p, t)) },
	"Irecv":       func(c *mpi.Comm, p, t int) error { return waited(mpi.Irecv(c, make([]int, 1), p, t)) },
	"RecvInit":    func(c *mpi.Comm, p, t int) error { return started(mpi.RecvInit(c, make([]int, 1), p, t)) },
	"RecvValue":   func(c *mpi.Comm, p, t int) error { return err2(mpi.RecvValue[int](c, p, t)) },
	"RecvAlloc":   func(c *mpi.Comm, p, t int) error { return err2(mpi.RecvAlloc[int](c, p, t)) },
	"RecvObject":  func(c *mpi.Comm, p, t int) error { return err1(mpi.RecvObject(c, new(string), p, t)) },
	"RecvView": func(c *mpi.Comm, p, t int) error {
		return err1(mpi.RecvView(c, mpi.View[int]{Data: make([]int, 1)}, p, t))
	},
	"IsendView":       func(c *mpi.Comm, p, t int) error { return waited(mpi.IsendView(c, spread(), p, t)) },
	"IssendView":      func(c *mpi.Comm, p, t int) error { return waited(mpi.IssendView(c, spread(), p, t)) },
	"IrecvView":       func(c *mpi.Comm, p, t int) error { return waited(mpi.IrecvView(c, spread(), p, t)) },
	"SendViewInit":    func(c *mpi.Comm, p, t int) error { return started(mpi.SendViewInit(c, spread(), p, t)) },
	"SsendViewInit":   func(c *mpi.Comm, p, t int) error { return started(mpi.SsendViewInit(c, spread(), p, t)) },
	"RecvViewInit":    func(c *mpi.Comm, p, t int) error { return started(mpi.RecvViewInit(c, spread(), p, t)) },
	"Comm.Probe":      func(c *mpi.Comm, p, t int) error { return err1(c.Probe(p, t)) },
	"Comm.Iprobe":     func(c *mpi.Comm, p, t int) error { return err2(c.Iprobe(p, t)) },
	"Comm.Mprobe":     func(c *mpi.Comm, p, t int) error { return err2(c.Mprobe(p, t)) },
	"Comm.Improbe":    func(c *mpi.Comm, p, t int) error { return err3(c.Improbe(p, t)) },
	"SendrecvReplace": func(c *mpi.Comm, p, t int) error { return err1(mpi.SendrecvReplace(c, make([]int, 1), p, t, p, t)) },
	"Sendrecv":        func(c *mpi.Comm, p, t int) error { return err1(mpi.Sendrecv(c, unit, p, t, make([]int, 1), p, t)) },
	"Isendrecv":       func(c *mpi.Comm, p, t int) error { return waited(mpi.Isendrecv(c, unit, p, t, make([]int, 1), p, t)) },
	"SendrecvView": func(c *mpi.Comm, p, t int) error {
		return err1(mpi.SendrecvView(c, mpi.View[int]{Data: unit}, p, t, mpi.View[int]{Data: make([]int, 1)}, p, t))
	},
}

// Every call about a message refuses a wrong communicator, rank and tag.
func TestMisusedMessages(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 2, func(c *mpi.Comm) error {
		freed, err := c.Dup()
		if err := all(err, freed.Free()); err != nil {
			return err
		}
		for name, call := range messages {
			for _, x := range []struct {
				what  string
				c     *mpi.Comm
				peer  int
				tag   int
				class error
			}{
				{"used well", c, mpi.ProcNull, 0, nil}, {"nil", nil, mpi.ProcNull, 0, mpi.ErrComm}, {"zero", &mpi.Comm{}, 0, 0, mpi.ErrComm},
				{"freed", freed, 0, 0, mpi.ErrComm}, {"rank 2", c, 2, 0, mpi.ErrRank}, {"rank -7", c, -7, 0, mpi.ErrRank}, {"tag -2", c, 0, -2, mpi.ErrTag},
				{"tag too large", c, 0, mpi.MaxTag + 1, mpi.ErrTag},
			} {
				err := call(x.c, x.peer, x.tag)
				if !errors.Is(err, x.class) || (err == nil) != (x.class == nil) {
					return fmt.Errorf("%s, %s: %v", name, x.what, err)
				}
			}
		}
		return all(wantErr("Send", mpi.Send(c, pointers, 0, 0), mpi.ErrType), wantErr("Recv", err1(mpi.Recv(c, pointers, 0, 0)), mpi.ErrType),
			wantErr("Isend", err1(mpi.Isend(c, pointers, 0, 0)), mpi.ErrType), wantErr("Irecv", err1(mpi.Irecv(c, pointers, 0, 0)), mpi.ErrType),
			wantErr("SendValue", mpi.SendValue(c, "text", 0, 0), mpi.ErrType), wantErr("RecvValue", err2(mpi.RecvValue[string](c, 0, 0)), mpi.ErrType),
			wantErr("Sendrecv", err1(mpi.Sendrecv(c, unit, 0, 0, unit, 0, 0)), mpi.ErrBuffer))
	})
}

// fromRoots and everywhere make the uses of calls that are wrong in the same ways.
func fromRoots(name string, call func(c *mpi.Comm, root int) error, wrong ...misuse) use {
	return use{name, func(c *mpi.Comm) error { return call(c, 0) }, true, append(wrong,
		misuse{"root 3", mpi.ErrRank, func(c *mpi.Comm) error { return call(c, 3) }},
		misuse{"root -1", mpi.ErrRank, func(c *mpi.Comm) error { return call(c, -1) }})}
}

func everywhere(name string, call func(c *mpi.Comm) error, wrong ...misuse) use {
	return use{name, call, true, wrong}
}

func length(call func(c *mpi.Comm) error) misuse  { return misuse{"length", mpi.ErrCount, call} }
func overlap(call func(c *mpi.Comm) error) misuse { return misuse{"overlap", mpi.ErrBuffer, call} }
func typed(call func(c *mpi.Comm) error) misuse   { return misuse{"type", mpi.ErrType, call} }
func noOp(call func(c *mpi.Comm) error) misuse    { return misuse{"operator", mpi.ErrOp, call} }

var misused = []use{
	everywhere("Barrier", mpi.Barrier),
	everywhere("BarrierInit", func(c *mpi.Comm) error { return started(mpi.BarrierInit(c)) }),
	everywhere("Ibarrier", func(c *mpi.Comm) error { return waited(mpi.Ibarrier(c)) }),
	fromRoots("Bcast", func(c *mpi.Comm, root int) error { return mpi.Bcast(c, unit[:0], root) },
		typed(func(c *mpi.Comm) error { return mpi.Bcast(c, pointers, 0) })),
	fromRoots("Ibcast", func(c *mpi.Comm, root int) error { return waited(mpi.Ibcast(c, unit[:0], root)) }),
	fromRoots("BcastValue", func(c *mpi.Comm, root int) error { return err1(mpi.BcastValue(c, 1, root)) },
		typed(func(c *mpi.Comm) error { return err1(mpi.BcastValue(c, "text", 0)) })),
	fromRoots("BcastObject", func(c *mpi.Comm, root int) error { return err1(mpi.BcastObject(c, "x", root)) }),
	fromRoots("Gather", func(c *mpi.Comm, root int) error { return mpi.Gather(c, unit, blocks(c, 1), root) },
		typed(func(c *mpi.Comm) error { return mpi.Gather(c, pointers[:1], pointers, 0) })),
	fromRoots("Igather", func(c *mpi.Comm, root int) error { return waited(mpi.Igather(c, unit, blocks(c, 1), root)) }),
	fromRoots("GatherInPlace", func(c *mpi.Comm, root int) error {
		if c.Rank() == root {
			return mpi.GatherInPlace(c, blocks(c, 1), root)
		}
		return mpi.GatherInPlace(c, unit, root)
	}),
	fromRoots("Gatherv", func(c *mpi.Comm, root int) error { return mpi.Gatherv(c, unit, blocks(c, 1), ones(c), nil, root) }),
	fromRoots("Igatherv", func(c *mpi.Comm, root int) error {
		return waited(mpi.Igatherv(c, unit, blocks(c, 1), ones(c), nil, root))
	}),
	fromRoots("GatherAlloc", func(c *mpi.Comm, root int) error { return err2(mpi.GatherAlloc(c, unit, root)) },
		typed(func(c *mpi.Comm) error { return err2(mpi.GatherAlloc(c, pointers, 0)) })),
	fromRoots("GatherObjects", func(c *mpi.Comm, root int) error { return err1(mpi.GatherObjects(c, "x", root)) }),
	fromRoots("Scatter", func(c *mpi.Comm, root int) error { return mpi.Scatter(c, blocks(c, 1), make([]int, 1), root) },
		typed(func(c *mpi.Comm) error { return mpi.Scatter(c, pointers, pointers[:1], 0) })),
	fromRoots("Iscatter", func(c *mpi.Comm, root int) error { return waited(mpi.Iscatter(c, blocks(c, 1), make([]int, 1), root)) }),
	fromRoots("Scatterv", func(c *mpi.Comm, root int) error {
		return mpi.Scatterv(c, blocks(c, 1), ones(c), nil, make([]int, 1), root)
	}),
	fromRoots("Iscatterv", func(c *mpi.Comm, root int) error {
		return waited(mpi.Iscatterv(c, blocks(c, 1), ones(c), nil, make([]int, 1), root))
	}),
	fromRoots("ScatterObjects", func(c *mpi.Comm, root int) error {
		return err1(mpi.ScatterObjects(c, slices.Repeat([]string{"x"}, c.Size()), root))
	}),
	everywhere("Allgather", func(c *mpi.Comm) error { return mpi.Allgather(c, unit, blocks(c, 1)) },
		length(func(c *mpi.Comm) error { return mpi.Allgather(c, unit, blocks(c, 2)) }),
		overlap(func(c *mpi.Comm) error { b := blocks(c, 1); return mpi.Allgather(c, b[:1], b) }),
		typed(func(c *mpi.Comm) error { return mpi.Allgather(c, pointers[:1], pointers) })),
	everywhere("Iallgather", func(c *mpi.Comm) error { return waited(mpi.Iallgather(c, unit, blocks(c, 1))) },
		length(func(c *mpi.Comm) error { return waited(mpi.Iallgather(c, unit, blocks(c, 2))) })),
	everywhere("AllgatherInPlace", func(c *mpi.Comm) error { return mpi.AllgatherInPlace(c, blocks(c, 1)) },
		length(func(c *mpi.Comm) error { return mpi.AllgatherInPlace(c, make([]int, 4)) })),
	everywhere("Allgatherv", func(c *mpi.Comm) error { return mpi.Allgatherv(c, unit, blocks(c, 1), ones(c), nil) },
		length(func(c *mpi.Comm) error { return mpi.Allgatherv(c, unit, blocks(c, 1), unit, nil) }),
		misuse{"displacement", mpi.ErrCount, func(c *mpi.Comm) error { return mpi.Allgatherv(c, unit, blocks(c, 1), ones(c), []int{0, 1, -1}) }}),
	everywhere("AllgatherAlloc", func(c *mpi.Comm) error { return err2(mpi.AllgatherAlloc(c, unit)) },
		typed(func(c *mpi.Comm) error { return err2(mpi.AllgatherAlloc(c, pointers)) })),
	everywhere("AllgatherObjects", func(c *mpi.Comm) error { return err1(mpi.AllgatherObjects(c, "x")) }),
	everywhere("Alltoall", func(c *mpi.Comm) error { return mpi.Alltoall(c, blocks(c, 1), blocks(c, 1)) },
		length(func(c *mpi.Comm) error { return mpi.Alltoall(c, blocks(c, 1), blocks(c, 2)) }),
		overlap(func(c *mpi.Comm) error { b := blocks(c, 1); return mpi.Alltoall(c, b, b) }),
		typed(func(c *mpi.Comm) error { return mpi.Alltoall(c, pointers, slices.Clone(pointers)) })),
	everywhere("AlltoallInPlace", func(c *mpi.Comm) error { return mpi.AlltoallInPlace(c, blocks(c, 1)) },
		length(func(c *mpi.Comm) error { return mpi.AlltoallInPlace(c, make([]int, 4)) })),
	everywhere("Alltoallv", func(c *mpi.Comm) error {
		return mpi.Alltoallv(c, blocks(c, 1), ones(c), nil, blocks(c, 1), ones(c), nil)
	},
		length(func(c *mpi.Comm) error { return mpi.Alltoallv(c, blocks(c, 1), ones(c), nil, unit, ones(c), nil) })),
	everywhere("AlltoallAlloc", func(c *mpi.Comm) error { return err1(mpi.AlltoallAlloc(c, make([][]int, c.Size()))) },
		length(func(c *mpi.Comm) error { return err1(mpi.AlltoallAlloc(c, make([][]int, 2))) })),
	everywhere("AlltoallObjects", func(c *mpi.Comm) error { return err1(mpi.AlltoallObjects(c, make([]string, c.Size()))) },
		length(func(c *mpi.Comm) error { return err1(mpi.AlltoallObjects(c, make([]string, 2))) })),
	everywhere("Allreduce", func(c *mpi.Comm) error { return mpi.Allreduce(c, unit, make([]int, 1), mpi.Sum) },
		length(func(c *mpi.Comm) error { return mpi.Allreduce(c, unit, make([]int, 2), mpi.Sum) }),
		overlap(func(c *mpi.Comm) error { return mpi.Allreduce(c, unit, unit, mpi.Sum) }),
		noOp(func(c *mpi.Comm) error { return mpi.Allreduce(c, unit, make([]int, 1), nil) })),
	everywhere("AllreduceValue", func(c *mpi.Comm) error { return err1(mpi.AllreduceValue(c, 1, mpi.Sum)) },
		noOp(func(c *mpi.Comm) error { return err1(mpi.AllreduceValue(c, 1, nil)) })),
	everywhere("Iallreduce", func(c *mpi.Comm) error { return waited(mpi.Iallreduce(c, unit, make([]int, 1), mpi.Sum)) },
		noOp(func(c *mpi.Comm) error { return waited(mpi.Iallreduce(c, unit, make([]int, 1), nil)) })),
	everywhere("AllreduceInit", func(c *mpi.Comm) error { return started(mpi.AllreduceInit(c, unit, make([]int, 1), mpi.Sum)) }),
	fromRoots("Reduce", func(c *mpi.Comm, root int) error { return mpi.Reduce(c, unit, make([]int, 1), mpi.Sum, root) },
		noOp(func(c *mpi.Comm) error { return mpi.Reduce(c, unit, make([]int, 1), nil, 0) })),
	fromRoots("ReduceValue", func(c *mpi.Comm, root int) error { return err1(mpi.ReduceValue(c, 1, mpi.Sum, root)) }),
	fromRoots("Ireduce", func(c *mpi.Comm, root int) error { return waited(mpi.Ireduce(c, unit, make([]int, 1), mpi.Sum, root)) }),
	everywhere("ReduceScatterBlock", func(c *mpi.Comm) error { return mpi.ReduceScatterBlock(c, blocks(c, 1), make([]int, 1), mpi.Sum) },
		length(func(c *mpi.Comm) error { return mpi.ReduceScatterBlock(c, unit, make([]int, 1), mpi.Sum) })),
	everywhere("ReduceScatter", func(c *mpi.Comm) error { return mpi.ReduceScatter(c, blocks(c, 1), make([]int, 1), ones(c), mpi.Sum) },
		length(func(c *mpi.Comm) error { return mpi.ReduceScatter(c, blocks(c, 1), make([]int, 1), unit, mpi.Sum) })),
	everywhere("Scan", func(c *mpi.Comm) error { return mpi.Scan(c, unit, make([]int, 1), mpi.Sum) },
		length(func(c *mpi.Comm) error { return mpi.Scan(c, unit, make([]int, 2), mpi.Sum) })),
	everywhere("ScanValue", func(c *mpi.Comm) error { return err1(mpi.ScanValue(c, 1, mpi.Sum)) }),
	everywhere("Exscan", func(c *mpi.Comm) error { return mpi.Exscan(c, unit, make([]int, 1), mpi.Sum) },
		overlap(func(c *mpi.Comm) error { return mpi.Exscan(c, unit, unit, mpi.Sum) })),
	everywhere("Alltoallw", func(c *mpi.Comm) error { return mpi.Alltoallw(c, singles(blocks(c, 1)), singles(blocks(c, 1))) },
		length(func(c *mpi.Comm) error { return mpi.Alltoallw(c, singles(unit), singles(blocks(c, 1))) })),
	everywhere("Ialltoallw", func(c *mpi.Comm) error {
		return waited(mpi.Ialltoallw(c, singles(blocks(c, 1)), singles(blocks(c, 1))))
	},
		length(func(c *mpi.Comm) error { return waited(mpi.Ialltoallw(c, singles(unit), singles(blocks(c, 1)))) })),
	around("NeighborAllgather", 1, func(t mpi.Topology, send, recv []int) error { return mpi.NeighborAllgather(t, send, recv) },
		typed(func(c *mpi.Comm) error { return mpi.NeighborAllgather(ring(c), pointers[:1], pointers[1:]) })),
	around("NeighborAllgatherv", 1, func(t mpi.Topology, send, recv []int) error {
		return mpi.NeighborAllgatherv(t, send, recv, two[:min(2, 6-len(recv))], nil)
	}),
	around("NeighborAlltoall", 2, func(t mpi.Topology, send, recv []int) error { return mpi.NeighborAlltoall(t, send, recv) },
		typed(func(c *mpi.Comm) error {
			return mpi.NeighborAlltoall(ring(c), pointers[:2], slices.Clone(pointers[:2]))
		})),
	around("NeighborAlltoallv", 2, func(t mpi.Topology, send, recv []int) error {
		return mpi.NeighborAlltoallv(t, send, two, nil, recv, two[:min(2, 6-len(recv))], nil)
	}),
	ringViews("NeighborAlltoallw", func(t mpi.Topology, send, recv []mpi.View[int]) error { return mpi.NeighborAlltoallw(t, send, recv) }),
	around("IneighborAllgather", 1, func(t mpi.Topology, send, recv []int) error { return waited(mpi.IneighborAllgather(t, send, recv)) },
		typed(func(c *mpi.Comm) error { return waited(mpi.IneighborAllgather(ring(c), pointers[:1], pointers[1:])) })),
	around("IneighborAlltoall", 2, func(t mpi.Topology, send, recv []int) error { return waited(mpi.IneighborAlltoall(t, send, recv)) }),
	ringViews("IneighborAlltoallw", func(t mpi.Topology, send, recv []mpi.View[int]) error {
		return waited(mpi.IneighborAlltoallw(t, send, recv))
	}),
	around("NeighborAlltoallInit", 2, func(t mpi.Topology, send, recv []int) error { return started(mpi.NeighborAlltoallInit(t, send, recv)) }),
	everywhere("Halo.Start", func(c *mpi.Comm) error {
		halo, err := mpi.NewHalo(ring(c), make([]int, 3), []int{3}, 1, false)
		if err != nil {
			return err
		}
		return waited(halo.Start())
	}),
	everywhere("Comm.Split", func(c *mpi.Comm) error { return err1(c.Split(0, 0)) },
		misuse{"colour", mpi.ErrComm, func(c *mpi.Comm) error { return err1(c.Split(-5, 0)) }}),
	everywhere("Comm.SplitType", func(c *mpi.Comm) error { return err1(c.SplitType(mpi.SharedMemory, 0)) },
		misuse{"kind", mpi.ErrComm, func(c *mpi.Comm) error { return err1(c.SplitType(77, 0)) }}),
	everywhere("Comm.Create", func(c *mpi.Comm) error { return err1(c.Create(c.Group())) }),
	everywhere("Comm.DupWithInfo", func(c *mpi.Comm) error { return err1(c.DupWithInfo(nil)) },
		misuse{"hint", mpi.ErrInfo, func(c *mpi.Comm) error { return err1(c.DupWithInfo(mpi.Info{"coll.bcast": "by bike"})) }}),
	everywhere("Comm.Cart", func(c *mpi.Comm) error { return err1(c.Cart([]int{3}, []bool{true}, false)) },
		misuse{"too many", mpi.ErrDims, func(c *mpi.Comm) error { return err1(c.Cart([]int{2, 2}, make([]bool, 2), false)) }},
		misuse{"negative", mpi.ErrDims, func(c *mpi.Comm) error { return err1(c.Cart([]int{-1}, make([]bool, 1), false)) }},
		misuse{"other numbers", mpi.ErrDims, func(c *mpi.Comm) error { return err1(c.Cart([]int{3}, nil, false)) }}),
	everywhere("Comm.DistGraph", func(c *mpi.Comm) error { return err1(c.DistGraph(nil, nil, nil)) },
		misuse{"rank", mpi.ErrRank, func(c *mpi.Comm) error { return err1(c.DistGraph([]int{3}, nil, nil)) }},
		misuse{"weights", mpi.ErrCount, func(c *mpi.Comm) error { return err1(c.DistGraph(nil, nil, &mpi.Weights{Dests: unit})) }}),
}

// Every collective refuses what is wrong, on all ranks and where one rank alone is wrong; then all are told.
func TestMisusedCollectives(t *testing.T) {
	mpitest.RunWithin(t, 30*time.Second, 3, func(world *mpi.Comm) error {
		freed, err := world.Dup()
		if err := all(err, freed.Free()); err != nil {
			return err
		}
		var cases sync.WaitGroup
		failed := make(chan error, 1)
		try := func(f func() error) {
			cases.Go(func() {
				if err := f(); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		for _, u := range slices.Concat(misused, misusedForms) {
			for _, c := range []*mpi.Comm{nil, {}, freed} {
				if err := wantErr(fmt.Sprintf("%s on %v", u.name, c), u.well(c), mpi.ErrComm); err != nil {
					return err
				}
			}
			if err := u.well(world); err != nil {
				return fmt.Errorf("%s: %w", u.name, err)
			}
			for _, x := range u.wrong {
				for _, alone := range []bool{false, true} {
					c, err := world.Dup()
					if err != nil {
						return err
					}
					try(func() error { return misuses(c, &u, &x, alone) })
				}
			}
		}
		cases.Wait()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	})
}

// misuses makes a wrong call on c, on all ranks or on rank 1 alone, and expects that all ranks are told in time.
func misuses(c *mpi.Comm, u *use, x *misuse, alone bool) error {
	name := u.name + ", " + x.what
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	late := c.WithContext(ctx)
	var err error
	if alone && c.Rank() != 1 {
		err = u.well(late)
	} else if err = x.call(late); !errors.Is(err, x.class) {
		return fmt.Errorf("%s: error %v, want %v", name, err, x.class)
	}
	if !alone {
		return c.Free()
	}
	for c.Rank() != 1 && err == nil { // it may have needed nobody
		err = mpi.Barrier(late)
	}
	if errors.Is(err, mpi.ErrDeadline) || err == nil {
		return fmt.Errorf("%s on rank 1 alone: rank %d gets %v", name, c.Rank(), err)
	}
	return c.Free()
}

// startsSecond starts two operations, of which the second is none. It checks that the error says so.
func startsSecond(c *mpi.Comm) error {
	p, err := mpi.SendInit(c, unit, mpi.ProcNull, 0)
	if err != nil {
		return err
	}
	err = mpi.Startall([]*mpi.Persistent{p, nil}, make([]mpi.Request, 2))
	var which *mpi.RequestError
	if !errors.As(err, &which) || which.Index != 1 {
		return fmt.Errorf("not the second: %v", err)
	}
	return err
}
