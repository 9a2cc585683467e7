package mpi

import (
	"fmt"
	"reflect"

	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// What the I... and ...Init forms of each collective have in common: arguments are checked, the call takes its place,
// and a schedule is chosen by what all ranks know alike.

// sound reports whether the lengths of a call can be compared: c is a communicator of one group that this rank is in.
func (c *Comm) sound() bool { return c.ready() == nil && c.inter == nil }

func flyBarrier(c *Comm, form kind) (*flight, error) {
	if c.crosses() {
		return flyAcross[byte](c, kindBarrier|form, noRoot, nil, nil, nil, schedule.Whole(0), schedule.Whole(0))
	}
	f, err := c.take(kindBarrier|form, noRoot, &basics[reflect.Uint8], 0, noOp, nil)
	if err == nil {
		f.note(nil, nil, func(s *schedule.Schedule) { schedule.Barrier(s, c.rank, c.size) })
	}
	return f, err
}

// blocksFrom is the length in bytes from which a Bcast travels in blocks.
const blocksFrom = 64 << 10

func flyBcast[T any](c *Comm, form kind, buf []T, root int) (*flight, error) {
	if c.crosses() {
		return flyAcross(c, kindBcast|form, root, buf, buf, nil, schedule.Whole(len(buf)), schedule.Whole(len(buf)))
	}
	t, err := elem[T]()
	p := bytesOf(buf)
	f, err := c.take(kindBcast|form, root, t, len(p), noOp, err)
	if err == nil {
		f.note(nil, p, func(s *schedule.Schedule) {
			if len(p) >= blocksFrom && c.size > 2 {
				schedule.BcastScattered(s, c.rank, c.size, root, len(buf), false)
			} else {
				schedule.Bcast(s, c.rank, c.size, root, len(buf), schedule.Pieces{})
			}
		})
	}
	return f, err
}

// flyReduction is what the calls with an operator have in common.
func flyReduction[T any](c *Comm, k kind, root int, send, recv []T, named Op[T], wrong error, plan func(s *schedule.Schedule)) (*flight, error) {
	t, err := elem[T]()
	op := named.operator()
	own, code := codeOf(op)
	if err == nil && code == noOp {
		err = errNoOp
	}
	f, err := c.take(k, root, t, len(bytesOf(send)), code, first(err, wrong))
	if err != nil {
		return nil, err
	}
	f.apply, f.foreign = applies(op, own, c.rank), own == nil
	f.note(bytesOf(send), bytesOf(recv), plan)
	return f, nil
}

func flyReduce[T any](c *Comm, form kind, send, recv []T, op Op[T], root int) (*flight, error) {
	if c.crosses() {
		return flyAcrossReduce(c, form, send, recv, op, root)
	}
	var err error
	var same bool
	if c.Rank() == root {
		same, err = aliased(bytesOf(send), bytesOf(recv))
		err = first(compare("recv", len(recv), len(send)), err)
	} else {
		recv = nil
	}
	return flyReduction(c, kindReduce|form, root, send, recv, op, err, func(s *schedule.Schedule) {
		schedule.Reduce(s, c.rank, c.size, root, len(send), same, schedule.Pieces{})
	})
}

// halvesFrom is the length in bytes from which a reduction by halves moves less than it costs in rounds.
const halvesFrom = 32 << 10

func flyAllreduce[T any](c *Comm, form kind, send, recv []T, op Op[T]) (*flight, error) {
	if c.crosses() {
		err := first(compare("recv", len(recv), len(send)), apart(bytesOf(send), bytesOf(recv)))
		return flyAcrossCombined(c, kindAllreduce|form, send, recv, op, 0, err)
	}
	same, err := aliased(bytesOf(send), bytesOf(recv))
	return flyReduction(c, kindAllreduce|form, noRoot, send, recv, op, first(compare("recv", len(recv), len(send)), err), func(s *schedule.Schedule) {
		if len(bytesOf(send)) >= halvesFrom && c.size > 2 {
			schedule.AllreduceHalving(s, c.rank, c.size, len(send), same, false, schedule.Pieces{})
		} else {
			schedule.Allreduce(s, c.rank, c.size, len(send), same)
		}
	})
}

func flyScan[T any](c *Comm, k kind, send, recv []T, op Op[T]) (*flight, error) {
	same, err := aliased(bytesOf(send), bytesOf(recv))
	return flyReduction(c, k, noRoot, send, recv, op, first(compare("recv", len(recv), len(send)), err), func(s *schedule.Schedule) {
		schedule.Scan(s, c.rank, c.size, len(send), k&^forms == kindExscan, same)
	})
}

func flyReduceScatterBlock[T any](c *Comm, form kind, send, recv []T, op Op[T]) (*flight, error) {
	k := len(recv)
	if c.crosses() {
		err := first(compare("send", len(send), c.Size()*k), apart(bytesOf(send), bytesOf(recv)))
		return flyAcrossCombined(c, kindReduceScatterBlock|form, send, recv, op, c.rank*k, err)
	}
	if beginsWith(send, recv) {
		k = len(send) / max(c.Size(), 1)
	}
	b := equal(k, max(c.Size(), 1))
	err := first(compare("send", len(send), c.Size()*k), atBeginning(send, recv))
	return flyReduction(c, kindReduceScatterBlock|form, noRoot, send, recv, op, err, func(s *schedule.Schedule) {
		schedule.ReduceScatter(s, c.rank, c.size, b.at)
	})
}

func flyReduceScatter[T any](c *Comm, form kind, send, recv []T, counts []int, op Op[T]) (*flight, error) {
	b, err := shares("send", c, len(send), counts, make([]int, c.Size()))
	if c.crosses() {
		at := 0
		if err == nil {
			at, _ = b.at(c.rank)
			err = first(compare("recv", len(recv), counts[c.rank]), apart(bytesOf(send), bytesOf(recv)))
		}
		return flyAcrossCombined(c, kindReduceScatter|form, send, recv, op, at, err)
	}
	if err == nil && c.sound() && !beginsWith(send, recv) {
		err = compare("recv", len(recv), counts[c.rank])
	}
	return flyReduction(c, kindReduceScatter|form, noRoot, send, recv, op, first(err, atBeginning(send, recv)), func(s *schedule.Schedule) {
		schedule.ReduceScatter(s, c.rank, c.size, b.at)
	})
}

// beginsWith reports whether a call is in place: the same slice twice.
func beginsWith[T any](send, recv []T) bool {
	return len(send) > 0 && len(send) == len(recv) && same(send, recv)
}

// atBeginning returns ErrBuffer if the buffers share memory otherwise.
func atBeginning[T any](send, recv []T) error {
	if beginsWith(send, recv) {
		return nil
	}
	return apart(bytesOf(send), bytesOf(recv))
}

// flyPortions is Gather and Scatter.
func flyPortions[T any](c *Comm, k kind, part, whole []T, root int) (*flight, error) {
	if c.crosses() {
		return flyAcrossPortions(c, k, part, whole, nil, nil, false, root)
	}
	t, err := elem[T]()
	b := equal(len(part), max(c.Size(), 1))
	if c.Rank() == root && c.sound() && err == nil {
		if err = compare(k.wholeName(), len(whole), c.Size()*len(part)); err == nil {
			err = within(part, whole, &b, root)
		}
	}
	f, err := c.take(k, root, t, len(bytesOf(part)), noOp, err)
	if err == nil {
		f.layPortions(bytesOf(part), bytesOf(whole), len(part), &b)
	}
	return f, err
}

// flyPortionsv is Gatherv and Scatterv.
func flyPortionsv[T any](c *Comm, k kind, part, whole []T, counts, displs []int, root int) (*flight, error) {
	if c.crosses() {
		return flyAcrossPortions(c, k, part, whole, counts, displs, true, root)
	}
	t, err := elem[T]()
	var b blocks
	if c.Rank() == root && c.sound() && err == nil {
		if b, err = explicit(k.wholeName(), c.Size(), len(whole), counts, displs, make([]int, c.Size())); err == nil {
			err = first(compare(k.partName(), len(part), counts[root]), within(part, whole, &b, root))
		}
	}
	f, err := c.take(k, root, t, -1, noOp, err)
	if err == nil {
		f.layPortions(bytesOf(part), bytesOf(whole), len(part), &b)
	}
	return f, err
}

func (f *flight) layPortions(part, whole []byte, k int, b *blocks) {
	if f.kind.gathers() {
		f.note(part, whole, func(s *schedule.Schedule) { schedule.Gather(s, f.c.rank, f.c.size, f.root, k, b.at) })
	} else {
		f.note(whole, part, func(s *schedule.Schedule) { schedule.Scatter(s, f.c.rank, f.c.size, f.root, k, b.at) })
	}
}

// within returns ErrBuffer if a rank's part shares memory with the whole, unless it is the rank's own block of it.
func within[T any](part, whole []T, b *blocks, rank int) error {
	if lo, hi := b.at(rank); hi-lo == len(part) && same(part, whole[lo:hi]) {
		return nil
	}
	return apart(bytesOf(part), bytesOf(whole))
}

// doublingUpTo is the longest result in bytes of an Allgather in few rounds.
const doublingUpTo = 16 << 10

func flyAllgather[T any](c *Comm, form kind, send, recv []T) (*flight, error) {
	if c.crosses() {
		b, err := c.crossParts("recv", len(recv), nil, nil, false)
		return flyAcross(c, kindAllgather|form, noRoot, send, recv, first(err, apart(bytesOf(send), bytesOf(recv))), schedule.Whole(len(send)), b.at)
	}
	t, err := elem[T]()
	b := equal(len(send), max(c.Size(), 1))
	if err == nil && c.sound() {
		if err = compare("recv", len(recv), c.size*len(send)); err == nil {
			err = within(send, recv, &b, c.rank)
		}
	}
	f, err := c.take(kindAllgather|form, noRoot, t, len(bytesOf(send)), noOp, err)
	if err != nil {
		return nil, err
	}
	f.note(bytesOf(send), bytesOf(recv), func(s *schedule.Schedule) {
		if c.size > 4 && len(recv)*t.Size <= doublingUpTo {
			schedule.AllgatherDoubling(s, c.rank, c.size, len(send))
		} else {
			schedule.Allgather(s, c.rank, c.size, b.at, false)
		}
	})
	return f, nil
}

func flyAllgatherv[T any](c *Comm, form kind, send, recv []T, counts, displs []int) (*flight, error) {
	if c.crosses() {
		b, err := c.crossParts("recv", len(recv), counts, displs, true)
		return flyAcross(c, kindAllgatherv|form, noRoot, send, recv, first(err, apart(bytesOf(send), bytesOf(recv))), schedule.Whole(len(send)), b.at)
	}
	t, err := elem[T]()
	var b blocks
	if err == nil && c.sound() {
		if b, err = explicit("recv", c.size, len(recv), counts, displs, make([]int, c.size)); err == nil {
			err = first(compare("send", len(send), counts[c.rank]), within(send, recv, &b, c.rank))
		}
	}
	f, err := c.take(kindAllgatherv|form, noRoot, t, -1, noOp, err)
	if err == nil {
		f.note(bytesOf(send), bytesOf(recv), func(s *schedule.Schedule) { schedule.Allgather(s, c.rank, c.size, b.at, false) })
	}
	return f, err
}

func flyAlltoall[T any](c *Comm, form kind, send, recv []T) (*flight, error) {
	if c.crosses() {
		sb, serr := c.crossParts("send", len(send), nil, nil, false)
		rb, rerr := c.crossParts("recv", len(recv), nil, nil, false)
		return flyAcross(c, kindAlltoall|form, noRoot, send, recv, first(serr, rerr, apart(bytesOf(send), bytesOf(recv))), sb.at, rb.at)
	}
	t, err := elem[T]()
	n := max(c.Size(), 1)
	b := equal(len(send)/n, n)
	same, aerr := aliased(bytesOf(send), bytesOf(recv))
	err = first(err, compare("send", len(send), len(send)/n*n), compare("recv", len(recv), len(send)), aerr)
	f, err := c.take(kindAlltoall|form, noRoot, t, len(bytesOf(send)), noOp, err)
	if err == nil {
		f.layAlltoall(bytesOf(send), bytesOf(recv), &b, &b, same)
	}
	return f, err
}

func flyAlltoallv[T any](c *Comm, form kind, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) (*flight, error) {
	if c.crosses() {
		sb, serr := c.crossParts("send", len(send), scounts, sdispls, true)
		rb, rerr := c.crossParts("recv", len(recv), rcounts, rdispls, true)
		return flyAcross(c, kindAlltoallv|form, noRoot, send, recv, first(serr, rerr, apart(bytesOf(send), bytesOf(recv))), sb.at, rb.at)
	}
	t, err := elem[T]()
	n := c.Size()
	sb, serr := explicit("send", n, len(send), scounts, sdispls, make([]int, n))
	rb, rerr := explicit("recv", n, len(recv), rcounts, rdispls, make([]int, n))
	same, aerr := aliased(bytesOf(send), bytesOf(recv))
	if err = first(err, serr, rerr, aerr); err == nil && c.sound() {
		err = alike(c, &sb, &rb, same)
	}
	f, err := c.take(kindAlltoallv|form, noRoot, t, -1, noOp, err)
	if err == nil {
		f.layAlltoall(bytesOf(send), bytesOf(recv), &sb, &rb, same)
	}
	return f, err
}

func (f *flight) layAlltoall(send, recv []byte, sb, rb *blocks, inPlace bool) {
	f.note(send, recv, func(s *schedule.Schedule) {
		if inPlace {
			schedule.AlltoallInPlace(s, f.c.rank, f.c.size, sb.at, schedule.Window)
		} else {
			schedule.Alltoall(s, f.c.rank, f.c.size, sb.at, rb.at, schedule.Window)
		}
	})
}

// alike checks that a rank sends itself what it receives from itself, and in place that all blocks are the same.
func alike(c *Comm, sb, rb *blocks, same bool) error {
	if sb.counts[c.rank] != rb.counts[c.rank] {
		return fmt.Errorf("%w: %d elements to itself, %d from itself", ErrCount, sb.counts[c.rank], rb.counts[c.rank])
	}
	for i := range c.size {
		if same && (sb.counts[i] != rb.counts[i] || sb.displs[i] != rb.displs[i]) {
			return fmt.Errorf("%w: in place the blocks of rank %d must be the same in send and recv", ErrBuffer, i)
		}
	}
	return nil
}
