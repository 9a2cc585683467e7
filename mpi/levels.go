package mpi

// Collectives of short messages where a communicator lies on several nodes: one
// rank of each node, its first, speaks for it. Long messages need no such care:
// their algorithms exchange most with neighbours.

// allgatherLevels collects the blocks of p on each node, exchanges them among
// the nodes' first ranks and hands all of p on.
func (x *collective) allgatherLevels(p []byte, b blocks) error {
	s, me, size := x.c.coll.nodes, x.c.rank, x.t.Size
	if s == nil {
		return x.allgatherCentral(p, b)
	}
	local := s.ranks[s.of[me]]
	if local[0] != me {
		return x.exchange(local[0], b.of(p, size, me), local[0], p)
	}
	for _, r := range local[1:] {
		x.get(r, b.of(p, size, r))
	}
	if err := x.run(); err != nil {
		return err
	}
	if err := x.amongNodes(p, b); err != nil {
		return err
	}
	for _, r := range local[1:] {
		x.put(r, p)
	}
	return x.run()
}

// amongNodes exchanges the nodes' blocks of p among their first ranks.
func (x *collective) amongNodes(p []byte, b blocks) error {
	s, size := x.c.coll.nodes, x.t.Size
	block := b.size * size
	mem := borrow(len(p))
	defer mem.giveBack()
	packed := mem.bytes(len(p)) // node after node
	node := s.of[x.c.rank]
	from, own := 0, packed[:0]
	for k, ranks := range s.ranks {
		part := packed[from : from+len(ranks)*block]
		from += len(part)
		if k != node {
			x.get(ranks[0], part)
			continue
		}
		own = part
		for i, r := range ranks {
			copy(part[i*block:], b.of(p, size, r))
		}
	}
	for k, ranks := range s.ranks {
		if k != node {
			x.put(ranks[0], own)
		}
	}
	if err := x.run(); err != nil {
		return err
	}
	for _, ranks := range s.ranks {
		for _, r := range ranks {
			copy(b.of(p, size, r), packed[:block])
			packed = packed[block:]
		}
	}
	return nil
}

// allreduceLevels collects all contributions on the nodes' first ranks, which
// combine them all alike and hand the result on.
func allreduceLevels[T any](x *collective, send, recv []T, op Op[T]) error {
	s, me := x.c.coll.nodes, x.c.rank
	if s == nil {
		return allreduceCentral(x, send, recv, op)
	}
	local := s.ranks[s.of[me]]
	if local[0] != me {
		return x.exchange(local[0], bytesOf(send), local[0], bytesOf(recv))
	}
	n, k := x.c.size, len(send)
	all, mem := borrowSlice[T](n * k)
	defer mem.giveBack()
	b := equal(k, n)
	copy(all[me*k:], send)
	for _, r := range local[1:] {
		x.get(r, b.of(bytesOf(all), x.t.Size, r))
	}
	if err := x.run(); err != nil {
		return err
	}
	if err := x.amongNodes(bytesOf(all), b); err != nil {
		return err
	}
	fold(all, k, n, op)
	copy(recv, all[:k])
	for _, r := range local[1:] {
		x.put(r, bytesOf(recv))
	}
	return x.run()
}
