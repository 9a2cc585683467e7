package mpi

import (
	"fmt"
	"reflect"
)

// Collectives in which no rank knows how much the others send. The ranks first tell each other the lengths. On an
// intercommunicator the others are the ranks of the other group.

// others returns how many ranks a rank gets parts from: all, or those of the other group of an intercommunicator.
func (c *Comm) others() int {
	if c.none() {
		return 0
	}
	return c.size
}

// isRoot reports whether the calling rank is the root of a call.
func (c *Comm) isRoot(root int) bool {
	if c.crosses() {
		return root == Root
	}
	return c.Rank() == root
}

// GatherAlloc concatenates all ranks' send, which may differ in length, on the root. There all is allocated, and
// counts[i] is the number of elements of rank i. Elsewhere both are nil. Errors: as Gather. (MPI-4.1, chapter 6.5,
// MPI_Gatherv)
func GatherAlloc[T any](c *Comm, send []T, root int) (all []T, counts []int, err error) {
	defer func() { err = called("GatherAlloc", err) }()
	if _, err = elem[T](); err != nil {
		return nil, nil, c.refuse(kindGather, root, err)
	}
	if c.isRoot(root) {
		counts = make([]int, c.others())
	}
	if err := Gather(c, []int{len(send)}, counts, root); err != nil {
		return nil, nil, err
	}
	if counts != nil {
		all = make([]T, total(counts))
	}
	if err := Gatherv(c, send, all, counts, nil, root); err != nil {
		return nil, nil, err
	}
	return all, counts, nil
}

// AllgatherAlloc concatenates all ranks' send, which may differ in length, on every rank. all is allocated, and
// counts[i] is the number of elements of rank i. Errors: as Allgather. (MPI-4.1, chapter 6.7, MPI_Allgatherv)
func AllgatherAlloc[T any](c *Comm, send []T) (all []T, counts []int, err error) {
	defer func() { err = called("AllgatherAlloc", err) }()
	if _, err = elem[T](); err != nil {
		return nil, nil, c.refuse(kindAllgather, noRoot, err)
	}
	counts = make([]int, c.others())
	if err := Allgather(c, []int{len(send)}, counts); err != nil {
		return nil, nil, err
	}
	all = make([]T, total(counts))
	if err := Allgatherv(c, send, all, counts, nil); err != nil {
		return nil, nil, err
	}
	return all, counts, nil
}

// AlltoallAlloc sends send[j] to rank j, and returns what each rank has sent to this one, by rank. send has
// Size() slices, on an intercommunicator RemoteSize(), of any length. The slices that are returned lie in one array, one after the other. Errors: as
// Allgather. (MPI-4.1, chapter 6.8, MPI_Alltoallv)
func AlltoallAlloc[T any](c *Comm, send [][]T) (pieces [][]T, err error) {
	defer func() { err = called("AlltoallAlloc", err) }()
	_, err = elem[T]()
	if err = first(err, compare("send", len(send), c.others())); err != nil {
		return nil, c.refuse(kindAlltoall, noRoot, err)
	}
	scounts, rcounts := make([]int, len(send)), make([]int, len(send))
	for i, p := range send {
		scounts[i] = len(p)
	}
	if err := Alltoall(c, scounts, rcounts); err != nil {
		return nil, err
	}
	packed, recv := make([]T, 0, total(scounts)), make([]T, total(rcounts))
	for _, p := range send {
		packed = append(packed, p...)
	}
	if err := Alltoallv(c, packed, scounts, nil, recv, rcounts, nil); err != nil {
		return nil, err
	}
	return cut(recv, rcounts), nil
}

// cut divides p into pieces of the given lengths.
func cut[T any](p []T, counts []int) [][]T {
	pieces := make([][]T, len(counts))
	for i, k := range counts {
		pieces[i], p = p[:k:k], p[k:]
	}
	return pieces
}

func total(counts []int) (sum int) {
	for _, k := range counts {
		sum += k
	}
	return sum
}

// refuse ends a call of several collectives before the first of them, because of its arguments. It takes the
// first one's place in the sequence, so the other ranks notice.
func (c *Comm) refuse(k kind, root int, wrong error) error {
	if wrong == nil {
		wrong = fmt.Errorf("%w: refused", ErrComm)
	}
	if c.crosses() {
		_, err := c.cross(k, root, &basics[reflect.Uint8], noOp, wrong)
		return err
	}
	_, err := c.enter(k, root, &basics[reflect.Uint8], -1, wrong)
	return err
}
