package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// Collectives of short messages on several nodes. The first rank of each node, its leader, speaks for it.
// Within a node they use the team, if there is one, else messages. Long messages do without leaders: their
// algorithms exchange most with neighbouring ranks anyway.

// local returns the ranks of this rank's node. The first one leads.
func (x *collective) local() []int {
	s := x.c.coll.nodes
	return s.ranks[s.of[x.c.rank]]
}

func (x *collective) leads() bool { return x.local()[0] == x.c.rank }

// collect copies mine of all ranks of the node to their leader's p, one after the other.
func (x *collective) collect(mine, p []byte) error {
	if x.c.coll.team.Team != nil {
		return x.gatherShared(mine, p, 0, 0)
	}
	k := copy(p, mine)
	for i, r := range x.local()[1:] {
		x.get(r, p[(i+1)*k:(i+2)*k])
	}
	return x.run()
}

// handOut copies the leader's p to all other ranks of the node. It also carries out a step that has begun.
func (x *collective) handOut(p []byte) error {
	t := &x.c.coll.team
	if t.Team != nil {
		if err := x.run(); err != nil {
			return err
		}
		return x.bcastShared(p, t.place, 0)
	}
	for _, r := range x.local() {
		if r != x.c.rank {
			x.put(r, p)
		}
	}
	return x.run()
}

// follow is collect and then handOut for ranks that do not lead.
func (x *collective) follow(mine, p []byte) error {
	leader := x.local()[0]
	if x.c.coll.team.Team == nil {
		return x.exchange(leader, mine, leader, p)
	}
	if err := x.gatherShared(mine, nil, 0, 0); err != nil {
		return err
	}
	return x.bcastShared(p, 0, 0)
}

// hear is handOut for a rank that gets p from a leader.
func (x *collective) hear(p []byte, leader int) error {
	t := &x.c.coll.team
	if t.Team == nil {
		return x.recv(leader, p)
	}
	return x.bcastShared(p, t.placeOf(leader), 0)
}

// allgatherLevels collects the blocks of p on each node, exchanges them among the leaders, and hands all of p
// out.
func (x *collective) allgatherLevels(p []byte, b blocks) error {
	s, size := x.c.coll.nodes, x.t.Size
	if s == nil {
		all := x.draft()
		schedule.AllgatherCentral(all, x.c.rank, x.c.size, b.total, b.at)
		return x.carry(all, b.of(p, size, x.c.rank), p)
	}
	mine := b.of(p, size, x.c.rank)
	if !x.leads() {
		return x.follow(mine, p)
	}
	if err := x.allgatherLeaders(mine, p); err != nil {
		return err
	}
	return x.handOut(p)
}

// allgatherLeaders collects mine of all ranks of the node, exchanges them among the leaders, and puts them into
// p in the order of ranks.
func (x *collective) allgatherLeaders(mine, p []byte) error {
	s, block, node := x.c.coll.nodes, len(mine), x.c.coll.nodes.of[x.c.rank]
	mem := borrow(len(p))
	defer mem.giveBack()
	packed := mem.bytes(len(p)) // node after node
	begin := 0
	for _, ranks := range s.ranks[:node] {
		begin += len(ranks) * block
	}
	own := packed[begin:][:len(s.ranks[node])*block]
	if err := x.collect(mine, own); err != nil {
		return err
	}
	begin = 0
	for k, ranks := range s.ranks {
		end := begin + len(ranks)*block
		if k != node {
			x.get(ranks[0], packed[begin:end])
		}
		begin = end
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
			copy(p[r*block:][:block], packed)
			packed = packed[block:]
		}
	}
	return nil
}

// allreduceLevels collects all contributions on the leaders. All leaders combine them alike and hand the result
// out.
func (x *collective) allreduceLevels(send, recv []byte) error {
	n := x.c.size
	switch {
	case x.c.coll.nodes == nil:
		s := x.draft()
		schedule.AllreduceCentral(s, x.c.rank, n, len(send)/x.t.Size)
		return x.carry(s, send, recv)
	case !x.leads():
		return x.follow(send, recv)
	}
	mem := borrow(n * len(send))
	defer mem.giveBack()
	all := mem.bytes(n * len(send))
	if err := x.allgatherLeaders(send, all); err != nil {
		return err
	}
	x.fold(all, len(send), n)
	copy(recv, all)
	return x.handOut(recv)
}
