package mpi

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// An intercommunicator joins two groups without a rank in common. Messages go to ranks of the other group. It is a
// Comm whose size and ranks are those of the remote group. Each group has a communicator of its own beside it, on
// which collectives do their local part (cross.go).
//
// Its context hashes the contexts that the two groups had, their members, the tag, and how often they have made an
// intercommunicator. All ranks of both know that alike.

// inter is what an intercommunicator has beside its remote group.
type inter struct {
	local *Comm // of this rank's group, and of nobody else's use
	low   bool  // this group's first rank in the world is the lower one
}

// crosses reports whether c is an intercommunicator.
func (c *Comm) crosses() bool { return c != nil && c.core != nil && c.inter != nil }

// IsInter reports whether c is an intercommunicator. (MPI-4.1, chapter 7.6.1, MPI_Comm_test_inter)
func (c *Comm) IsInter() bool { return c.crosses() }

// RemoteSize returns the number of ranks in the other group of an intercommunicator, else 0. (MPI-4.1, chapter
// 7.6.1)
func (c *Comm) RemoteSize() int {
	if !c.crosses() {
		return 0
	}
	return c.size
}

// RemoteGroup returns the other group of an intercommunicator, else the empty group. (MPI-4.1, chapter 7.6.1)
func (c *Comm) RemoteGroup() Group {
	if !c.crosses() {
		return Group{}
	}
	return c.core.group()
}

// IntercommCreate makes an intercommunicator of two groups: the ranks of local, and those of the communicator that
// the other group gives as its local. All ranks of both call it. leader is a rank of local, the same on all its
// ranks. The leaders talk on peer, which only they look at: remote is the other leader's rank in peer, and no other
// message of that tag may be on its way between them. Errors: ErrComm, also if the groups have a rank in common;
// ErrRank; ErrTag; as Bcast. What is wrong at a leader all ranks of its group are told; so is the other group, if ranks of one
// do not name the same leader: ErrMismatch. (MPI-4.1, chapter 7.6.2)
func IntercommCreate(local *Comm, leader int, peer *Comm, remote, tag int) (*Comm, error) {
	if err := local.joins(); err != nil {
		return nil, local.fail("IntercommCreate", err)
	}
	if local.inter != nil {
		return nil, local.fail("IntercommCreate", errInter)
	}
	mine := append([]int{int(local.ctx)}, local.core.group().ranks...)
	if err := local.agreeOn(leader); err != nil {
		if local.rank == leader && tag != AnyTag {
			_ = Bsend(peer, mine[:0], remote, tag) // the other group is not to wait
		}
		return nil, err
	}
	var theirs []int
	var wrong error
	if local.rank == leader {
		theirs, wrong = meetLeader(mine, peer, remote, tag)
	}
	theirs, err := local.hearLeader(theirs, wrong, leader)
	if err != nil {
		return nil, err
	}
	ours := local.core.group().set()
	for _, r := range theirs[1:] {
		if ours[r] {
			return nil, local.fail("IntercommCreate", fmt.Errorf("%w: rank %d of the world is in both groups", ErrComm, r))
		}
	}
	low, high := mine, theirs
	if mine[1] > theirs[1] {
		low, high = theirs, mine
	}
	name := fmt.Sprintf("%x %x tag %d", digest(low), digest(high), tag)
	n := local.env.world.times(madeKey{agreed(name), tag})
	path := fmt.Sprintf("%s/i%d.%d", local.path, tag, n)
	return local.env.newInter(path, contextOf(uint64(low[0]), n, name), local.ctx, mine[1:], theirs[1:], local.codec), nil
}

// agreeOn returns an error on all ranks if they do not name the same leader.
func (c *Comm) agreeOn(leader int) error {
	mine := choice{Key: int64(leader), Agreed: agreed("leader")}
	all, err := c.choices(kindCreate, mine, nil)
	if err == nil && uint(leader) >= uint(c.size) {
		err = fmt.Errorf("%w: leader %d", errRoot, leader)
	}
	for r, x := range all {
		if err == nil && x.Agreed != mine.Agreed {
			err = fmt.Errorf("%w: rank %d makes another communicator", ErrMismatch, r)
		}
		if err == nil && x.Key != mine.Key {
			err = fmt.Errorf("%w: rank %d names the leader %d, this rank %d", ErrMismatch, r, x.Key, leader)
		}
	}
	if err != nil {
		return called("IntercommCreate", c.fail("IntercommCreate", err))
	}
	return nil
}

// meetLeader tells the leader of the other group one's own group, and returns theirs. Both begin with a context.
func meetLeader(mine []int, peer *Comm, remote, tag int) ([]int, error) {
	if peer.crosses() && remote >= peer.size || !peer.crosses() && peer.Rank() == remote && remote >= 0 {
		return nil, peer.fail("IntercommCreate", fmt.Errorf("%w: the other leader cannot be rank %d", ErrRank, remote))
	}
	if remote == ProcNull || tag == AnyTag {
		return nil, peer.fail("IntercommCreate", first(peer.ready(), peer.checkSend(remote, tag), fmt.Errorf("%w: no other leader", ErrRank)))
	}
	r, err := Isend(peer, mine, remote, tag)
	if err != nil {
		return nil, err
	}
	theirs, _, err := RecvAlloc[int](peer, remote, tag)
	_, sent := r.Wait()
	switch err = first(err, sent); {
	case err == nil && len(theirs) == 0:
		err = peer.fail("IntercommCreate", fmt.Errorf("%w: the group of rank %d does not agree on its leader", ErrMismatch, remote))
	case err == nil && len(theirs) < 2:
		err = peer.fail("IntercommCreate", fmt.Errorf("%w: rank %d has sent another message with tag %d", ErrMismatch, remote, tag))
	}
	return theirs, err
}

// hearLeader returns on all ranks what the leader has heard, or an error if it has met one.
func (c *Comm) hearLeader(words []int, wrong error, leader int) ([]int, error) {
	text := ""
	if wrong != nil {
		text = wrong.Error()
	}
	told, err := BcastObject(c, text, leader)
	switch {
	case err != nil:
		return nil, err
	case wrong != nil:
		return nil, wrong
	case told != "":
		return nil, c.fail("IntercommCreate", fmt.Errorf("%w: the leader, rank %d, says: %s", ErrComm, leader, told))
	}
	return BcastObject(c, words, leader)
}

// newInter makes an intercommunicator of two groups, which are not empty. The calling rank is in own.
func (e *env) newInter(path string, ctx, from uint64, own, remote []int, codec Codec) *Comm {
	rank := slices.Index(own, e.job.Rank)
	l := e.newComm(path+"(local)", contextOf(ctx, uint64(own[0]), "local"), from, rank, len(own), own)
	l.side = true
	c := &Comm{core: &core{env: e, eng: e.eng, path: path, ctx: ctx, from: from, rank: rank, size: len(remote), ranks: remote,
		inter: &inter{local: l, low: own[0] < remote[0]}}, codec: codec}
	c.coll.turn = make(chan struct{}, 1)
	c.nameContexts()
	e.watch.add(c.core)
	return c
}

// dupInter is Dup.
func (c *Comm) dupInter() (*Comm, error) {
	x, err := c.cross(kindDup, noRoot, nil, noOp, nil)
	if err != nil {
		return nil, err
	}
	y, err := c.inter.local.enter(kindDup, noRoot, nil, -1, nil) // where ranks that disagree meet first
	if err != nil {
		return nil, x.leave(err)
	}
	err = y.leave(nil)
	d := c.again(c.children.Add(1), "dup")
	d.info, d.inter.local.table = c.info, c.inter.local.table
	err = x.leave(err)
	c.copyAttributes(d)
	return d, err
}

// again makes an intercommunicator of the same groups.
func (c *Comm) again(n uint64, what string) *Comm {
	return c.env.newInter(fmt.Sprintf("%s/%d", c.path, n), contextOf(c.ctx, n, what), c.ctx, c.own().ranks, c.ranks, c.codec)
}

// splitInter is Split, for calls of several kinds. Ranks of both groups agree on mine.Agreed.
func (c *Comm) splitInter(k kind, mine choice, wrong error) (*Comm, error) {
	n, ours, theirs, err := c.choicesOfBoth(k, mine, wrong)
	if err != nil {
		return nil, err
	}
	for r, x := range slices.Concat(ours, theirs) {
		if x.Agreed != mine.Agreed {
			return nil, c.fail(k.String(), fmt.Errorf("%w: rank %d of both groups has given other arguments", ErrMismatch, r))
		}
	}
	own, other := sorted(c.own(), ours, mine.Color), sorted(c.core, theirs, mine.Color)
	if mine.Color == undefinedColor || len(other) == 0 {
		return nil, nil
	}
	name := fmt.Sprint(mine.Color)
	return c.env.newInter(fmt.Sprintf("%s/%d:%s", c.path, n, name), contextOf(c.ctx, n, name), c.ctx, own, other, c.codec), nil
}

// createInter is Create: the ranks of a group have all given the same, each group its own.
func (c *Comm) createInter(g Group) (*Comm, error) {
	mine := choice{Color: undefinedColor, Members: digest(g.ranks)}
	if r := g.Rank(); r >= 0 {
		mine.Color, mine.Key = 0, int64(r)
	}
	n, ours, theirs, err := c.choicesOfBoth(kindCreate, mine, c.holds(g))
	if err != nil {
		return nil, err
	}
	for _, side := range [][]choice{ours, theirs} {
		for r, x := range side {
			if x.Members != side[0].Members {
				return nil, c.fail("Create", fmt.Errorf("%w: rank %d has given another group than rank 0 of its side", ErrMismatch, r))
			}
		}
	}
	own, other := sorted(c.own(), ours, 0), sorted(c.core, theirs, 0)
	if mine.Color == undefinedColor || len(other) == 0 {
		return nil, nil
	}
	return c.env.newInter(fmt.Sprintf("%s/%d", c.path, n), contextOf(c.ctx, n, "create"), c.ctx, own, other, c.codec), nil
}

// dupInterWithInfo is DupWithInfo. The hints act on what each group does by itself.
func (c *Comm) dupInterWithInfo(acts Info, table coll.Table, wrong error) (*Comm, error) {
	mine := choice{Agreed: agreed("info", map[string]string(acts))}
	n, ours, theirs, err := c.choicesOfBoth(kindCreate, mine, wrong)
	if err != nil {
		return nil, err
	}
	for r, x := range slices.Concat(ours, theirs) {
		if x.Agreed != mine.Agreed {
			return nil, c.fail("DupWithInfo", fmt.Errorf("%w: rank %d of both groups has given other hints", ErrMismatch, r))
		}
	}
	d := c.again(n, "info")
	if len(acts) > 0 {
		d.inter.local.table, d.info = table, acts
	}
	c.copyAttributes(d)
	return d, nil
}

// choicesOfBoth tells all ranks of both groups what each wants, and counts the call that makes a communicator.
func (c *Comm) choicesOfBoth(k kind, mine choice, wrong error) (n uint64, ours, theirs []choice, err error) {
	if err := c.joins(); err != nil {
		return 0, nil, nil, c.fail(k.String(), err)
	}
	n = c.children.Add(1)
	mine.Op = n
	ours, err = c.inter.local.choices(k, mine, wrong)
	theirs = make([]choice, c.size)
	err = c.both(err, func() error { return crossAllgather(c, k, []choice{mine}, theirs, nil, nil, false) })
	for r, x := range slices.Concat(ours, theirs) {
		if err == nil && x.Op != n {
			err = c.fail(k.String(), fmt.Errorf("%w: rank %d of both groups has made %d communicators of %s, this rank %d", ErrMismatch, r, x.Op, c.path, n))
		}
	}
	return n, ours, theirs, err
}

// sorted returns the ranks of the world that have chosen a colour, in the order of their keys.
func sorted(c *core, all []choice, color int64) []int {
	var members []int
	for r, x := range all {
		if x.Color == color {
			members = append(members, r)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
	for i, r := range members {
		members[i] = c.toWorld(r)
	}
	return members
}

// both does the second part of a call that has failed on this rank's group, if err is not nil: it makes the other
// group's part fail, too.
func (c *Comm) both(err error, then func() error) error {
	if err == nil {
		return then()
	}
	c.poison(err)
	return err
}

// Merge makes a communicator of both groups of an intercommunicator. All ranks of both call it, those of a group
// with the same value: the group that says high comes after the other. Where both say the same, the group whose
// first rank is lower in the world comes first. Errors: ErrComm if c is no intercommunicator; ErrMismatch if the
// ranks of a group do not agree; as Allgather. (MPI-4.1, chapter 7.6.2, MPI_Intercomm_merge)
func (c *Comm) Merge(high bool) (*Comm, error) {
	err := c.joins()
	if err == nil && c.inter == nil {
		err = fmt.Errorf("%w: no intercommunicator", ErrComm)
	}
	if err != nil {
		return nil, c.fail("Merge", err)
	}
	mine := choice{}
	if high {
		mine.Key = 1
	}
	n, ours, theirs, err := c.choicesOfBoth(kindMerge, mine, nil)
	if err != nil {
		return nil, err
	}
	for _, side := range [][]choice{ours, theirs} {
		if slices.ContainsFunc(side, func(x choice) bool { return x.Key != side[0].Key }) {
			return nil, c.fail("Merge", fmt.Errorf("%w: the ranks of a group do not agree on high", ErrMismatch))
		}
	}
	own, other := c.own().group().ranks, c.core.group().ranks
	before := c.inter.low
	if ours[0].Key != theirs[0].Key {
		before = !high
	}
	rank, all := c.rank, slices.Concat(own, other)
	if !before {
		rank, all = c.rank+len(other), slices.Concat(other, own)
	}
	d := c.env.newComm(fmt.Sprintf("%s/%d", c.path, n), contextOf(c.ctx, n, "merge"), c.ctx, rank, len(all), all)
	d.codec = c.codec
	return d, nil
}
