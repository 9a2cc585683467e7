package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// Scatter is Gather backwards. Each rank has a part, and the root has the whole of all parts. Both begin alike,
// and differ in the direction in which the parts go.

// gathers reports whether the parts go to the root.
func (k kind) gathers() bool { return k&^forms == kindGather || k&^forms == kindGatherv }

// wholeName and partName are the parameters' names, for errors.
func (k kind) wholeName() string {
	if k.gathers() {
		return "recv"
	}
	return "send"
}

func (k kind) partName() string {
	if k.gathers() {
		return "send"
	}
	return "recv"
}

// portions is Gather and Scatter.
func portions[T any](c *Comm, k kind, part, whole []T, root int) error {
	if c.crosses() {
		return crossPortions(c, k, part, whole, nil, nil, false, root)
	}
	t, err := elem[T]()
	pp, wp := bytesOf(part), bytesOf(whole)
	if c.Rank() == root {
		err = first(err, compare(k.wholeName(), len(whole), c.Size()*len(part)), apart(pp, wp))
	}
	x, err := c.enter(k, root, t, len(pp), err)
	if err != nil {
		return err
	}
	b := equal(len(part), c.size)
	x.keepOwn(pp, wp, &b)
	return x.leave(x.move(pp, wp, b))
}

// portionsInPlace is GatherInPlace and ScatterInPlace.
func portionsInPlace[T any](c *Comm, k kind, buf []T, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	n, count := max(c.Size(), 1), len(buf)
	if c.Rank() == root {
		count /= n
		err = first(err, compare("buf", len(buf), count*n))
	}
	b := equal(count, n)
	part := p
	if c.Rank() == root && err == nil {
		part = b.of(p, t.Size, root)
	}
	x, err := c.enter(k, root, t, len(part), err)
	if err != nil {
		return err
	}
	return x.leave(x.move(part, p, b))
}

// portionsv is Gatherv and Scatterv.
func portionsv[T any](c *Comm, k kind, part, whole []T, counts, displs []int, root int) error {
	if c.crosses() {
		return crossPortions(c, k, part, whole, counts, displs, true, root)
	}
	t, err := elem[T]()
	pp, wp := bytesOf(part), bytesOf(whole)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	var b blocks
	if c.Rank() == root {
		var berr error
		if b, berr = explicit(k.wholeName(), c.Size(), len(whole), counts, displs, tmp); berr == nil {
			berr = compare(k.partName(), len(part), counts[root])
		}
		err = first(err, berr, apart(pp, wp))
	}
	x, err := c.enter(k, root, t, -1, err)
	if err != nil {
		return err
	}
	x.keepOwn(pp, wp, &b)
	return x.leave(x.movev(pp, wp, b))
}

// portionsvInPlace is GathervInPlace and ScattervInPlace.
func portionsvInPlace[T any](c *Comm, k kind, buf []T, counts, displs []int, root int) error {
	t, err := elem[T]()
	p := bytesOf(buf)
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	var b blocks
	if c.Rank() == root {
		var berr error
		b, berr = explicit("buf", c.Size(), len(buf), counts, displs, tmp)
		err = first(err, berr)
	}
	x, err := c.enter(k, root, t, -1, err)
	if err != nil {
		return err
	}
	return x.leave(x.movev(p, p, b))
}

// keepOwn copies the root's part, which stays there.
func (x *collective) keepOwn(part, whole []byte, b *blocks) {
	switch {
	case x.c.rank != x.root:
	case x.kind.gathers():
		copy(b.of(whole, x.t.Size, x.root), part)
	default:
		copy(part, b.of(whole, x.t.Size, x.root))
	}
}

// move moves parts of equal length.
func (x *collective) move(part, whole []byte, b blocks) error {
	if x.kind.gathers() {
		return x.gather(part, whole, b)
	}
	return x.scatter(whole, part, b)
}

// movev moves parts of whose length only the root knows.
func (x *collective) movev(part, whole []byte, b blocks) error {
	if x.c.rank == x.root {
		part = b.of(whole, x.t.Size, x.root)
	}
	s, k := x.draft(), len(part)/x.t.Size
	if x.kind.gathers() {
		schedule.Gather(s, x.c.rank, x.c.size, x.root, k, b.at)
		return x.carry(s, part, whole)
	}
	schedule.Scatter(s, x.c.rank, x.c.size, x.root, k, b.at)
	return x.carry(s, whole, part)
}
