package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// Collectives on intercommunicators that go on while the program computes. Every rank exchanges messages with those of the
// other group that it has to do with, all at once. A reduction is combined by whoever receives it, in the order of the
// other group's ranks: the result has the same bits as that of the blocking call.

// between reports whether intercommunicators have such a call.
func (k kind) between() bool {
	switch k &^ forms {
	case kindBarrier, kindBcast, kindReduce, kindAllreduce, kindGather, kindGatherv, kindScatter, kindScatterv, kindAllgather, kindAllgatherv,
		kindAlltoall, kindAlltoallv, kindAlltoallw, kindReduceScatter, kindReduceScatterBlock:
		return true
	}
	return false
}

// partners returns the ranks of the other group that a rank sends to and receives from in a call. From a root data
// goes to the whole other group, where there is one; gathers turns that around.
func (c *Comm) partners(k kind, root int) (to, from schedule.Ranks) {
	all := schedule.Ranks{Hi: c.size}
	switch {
	case !k.rooted():
		return all, all
	case root == Root:
		to = all
	case root != ProcNull:
		from = schedule.Ranks{Lo: root, Hi: root + 1}
	}
	if k.gathers() || k&^forms == kindReduce {
		return from, to
	}
	return to, from
}

// flyAcross is a call that moves blocks.
func flyAcross[T any](c *Comm, k kind, root int, send, recv []T, wrong error, out, in schedule.Blocks) (*flight, error) {
	t, err := elem[T]()
	f, err := c.take(k, root, t, -1, noOp, first(err, wrong))
	if err == nil {
		to, from := c.partners(k, root)
		f.note(bytesOf(send), bytesOf(recv), func(s *schedule.Schedule) { schedule.Across(s, to, from, out, in) })
	}
	return f, err
}

// flyAcrossPortions is Gather and Scatter.
func flyAcrossPortions[T any](c *Comm, k kind, part, whole []T, counts, displs []int, vector bool, root int) (*flight, error) {
	mine, b, err := wholeOrPart(c, k, part, whole, counts, displs, vector, root)
	return flyAcross(c, k, root, mine, mine, err, b.at, b.at)
}

func flyAcrossReduce[T any](c *Comm, form kind, send, recv []T, op Op[T], root int) (*flight, error) {
	k := kindReduce | form
	return flyReduction(c, k, root, send, recv, op, nil, func(s *schedule.Schedule) {
		to, from := c.partners(k, root)
		n := len(send)
		if root == Root {
			n = len(recv)
		}
		schedule.AcrossCombined(s, to, from.Hi-from.Lo, n, 0, n)
	})
}

// flyAcrossCombined is a reduction of which each rank gets as many elements as recv has, from element at on.
func flyAcrossCombined[T any](c *Comm, k kind, send, recv []T, op Op[T], at int, wrong error) (*flight, error) {
	return flyReduction(c, k, noRoot, send, recv, op, wrong, func(s *schedule.Schedule) {
		to, from := c.partners(k, noRoot)
		schedule.AcrossCombined(s, to, from.Hi-from.Lo, len(send), at, at+len(recv))
	})
}
