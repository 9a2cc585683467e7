package mpi

import (
	"fmt"
	"sort"
)

// Communicators that all ranks of their parent make: Split, Create, and the topologies. The ranks first tell each
// other what they want. So each finds out by itself if they disagree.

// choice is what the ranks tell each other.
type choice struct {
	Color, Key int64
	Op         uint64 // how many communicators were made of the parent
	Agreed     uint64 // the same on all ranks
	Members    uint64 // the same on all ranks of a colour
}

// undefinedColor is the colour of ranks that make no communicator.
const undefinedColor = Undefined

// Split makes one communicator for each colour, of the ranks that gave it. Their order is that of their keys
// and, where keys are equal, of their ranks in c. A rank that gives the colour Undefined gets nil. All ranks of
// c call it. Of an intercommunicator it makes intercommunicators; a colour that only one group gives makes none.
// Colours are not negative: ErrComm. Other errors: as Allgather. (MPI-4.1, chapter 7.4.2)
func (c *Comm) Split(color, key int) (*Comm, error) {
	var wrong error
	if color < 0 && color != Undefined {
		wrong = fmt.Errorf("%w: colour %d is negative and not Undefined", ErrComm, color)
	}
	mine := choice{Color: int64(color), Key: int64(key)}
	if c.crosses() {
		return c.splitInter(kindSplit, mine, wrong)
	}
	return c.split(kindSplit, mine, wrong)
}

// SharedMemory is a type of communicators for SplitType: of ranks that are on one node, and share its memory.
// (MPI-4.1, chapter 7.4.2, MPI_COMM_TYPE_SHARED)
const SharedMemory = 1

// SplitType is Split into communicators of ranks that have something in common: kind is SharedMemory, or Undefined
// for a rank that gets nil. Nodes are those that the program first began on: a restart elsewhere, of as many ranks,
// changes no communicator. Of an intercommunicator it makes one for each node that has ranks of both groups. Errors: ErrComm if
// there is no such kind; as Allgather. (MPI-4.1, chapter 7.4.2,
// MPI_Comm_split_type)
func (c *Comm) SplitType(kind, key int) (d *Comm, err error) {
	defer func() { err = called("SplitType", err) }()
	color := int64(undefinedColor)
	var wrong error
	switch {
	case kind == SharedMemory && c.ready() == nil:
		var nodes []int
		if nodes, wrong = c.env.chooser.origin(); wrong == nil {
			color = int64(nodes[c.env.job.Rank])
		}
	case kind != SharedMemory && kind != Undefined:
		wrong = fmt.Errorf("%w: SplitType knows no kind %d", ErrComm, kind)
	}
	mine := choice{Color: color, Key: int64(key), Agreed: agreed("type")}
	if c.crosses() {
		return c.splitInter(kindSplit, mine, wrong)
	}
	return c.split(kindSplit, mine, wrong)
}

// Create makes a communicator of a group, in its order. All ranks of c call it. Each gives the group that it is
// in, or any group that it is not in, and then gets nil. So several communicators can be made at once, of groups
// that have no rank in common. Errors: ErrGroup if a rank of the group is not in c; ErrMismatch if its ranks have
// not given the same group; as Allgather. (MPI-4.1, chapter 7.4.2, MPI_Comm_create)
func (c *Comm) Create(g Group) (*Comm, error) {
	if c.crosses() {
		return c.createInter(g)
	}
	mine := choice{Color: undefinedColor}
	wrong := c.holds(g)
	if r := g.Rank(); r >= 0 {
		mine = choice{Color: int64(g.ranks[0]), Key: int64(r), Members: digest(g.ranks)}
	}
	d, err := c.split(kindCreate, mine, wrong)
	if err == nil && d != nil && d.size != g.Size() {
		_ = d.Free()
		return nil, c.fail("Create", fmt.Errorf("%w: only %d of the %d ranks of the group have given it", ErrMismatch, d.size, g.Size()))
	}
	return d, err
}

// holds returns an error if a rank of g is not in c.
func (c *Comm) holds(g Group) error {
	if c.none() {
		return nil // the call says so
	}
	in := c.Group().set()
	for _, r := range g.ranks {
		if !in[r] {
			return fmt.Errorf("%w: rank %d of the world is not in %s", ErrGroup, r, c.path)
		}
	}
	return nil
}

// split makes the communicator of the ranks that give the same colour; nil for the colour Undefined.
func (c *Comm) split(k kind, mine choice, wrong error) (*Comm, error) {
	if err := c.joins(); err != nil {
		return nil, c.fail(k.String(), err)
	}
	n := c.children.Add(1)
	mine.Op = n
	all, err := c.choices(k, mine, wrong)
	if err != nil {
		return nil, err
	}
	var members []int
	for r, x := range all {
		switch {
		case x.Op != n:
			err = fmt.Errorf("%w: rank %d has made %d communicators of %s, this rank %d", ErrMismatch, r, x.Op, c.path, n)
		case x.Agreed != mine.Agreed:
			err = fmt.Errorf("%w: rank %d has given other arguments", ErrMismatch, r)
		case x.Color == mine.Color && x.Members != mine.Members:
			err = fmt.Errorf("%w: rank %d has given another group", ErrMismatch, r)
		}
		if err != nil {
			return nil, c.fail(k.String(), err)
		}
		if x.Color == mine.Color {
			members = append(members, r)
		}
	}
	if mine.Color == undefinedColor {
		return nil, nil
	}
	sort.SliceStable(members, func(i, j int) bool { return all[members[i]].Key < all[members[j]].Key })
	world, rank := make([]int, len(members)), 0
	for i, r := range members {
		world[i] = c.toWorld(r)
		if r == c.rank {
			rank = i
		}
	}
	name := fmt.Sprint(mine.Color)
	d := c.env.newComm(fmt.Sprintf("%s/%d:%s", c.path, n, name), contextOf(c.ctx, n, name), c.ctx, rank, len(members), world)
	d.codec = c.codec
	return d, nil
}

// choices tells all ranks what each wants.
func (c *Comm) choices(k kind, mine choice, wrong error) ([]choice, error) {
	t, err := elem[choice]()
	if err != nil {
		return nil, err
	}
	all := make([]choice, c.size)
	p := bytesOf(all)
	x, err := c.enter(k, noRoot, t, t.Size, wrong)
	if err != nil {
		return nil, err
	}
	all[c.rank] = mine
	return all, x.leave(x.allgather(p, equal(1, c.size)))
}

// agreed hashes arguments that all ranks give alike.
func agreed(args ...any) uint64 { return contextOf(0, 0, fmt.Sprint(args...)) }

// CreateGroup makes a communicator of a group, in its order. Only the ranks of the group call it, which are ranks
// of c, as often as each other with that group and tag. It sends nothing and waits for nobody: the first collective
// on the new communicator does, and in vain if others have given another group or tag: nothing tells that but a
// deadline (WithContext). An empty group makes none, nil. Errors: ErrComm; ErrGroup if the calling rank is not in the
// group, or a rank of the group is not in c; ErrTag. (MPI-4.1, chapter 7.4.2, MPI_Comm_create_group)
func (c *Comm) CreateGroup(g Group, tag int) (*Comm, error) {
	err := c.ready()
	switch {
	case err != nil:
	case c.inter != nil:
		err = errInter
	case uint(tag) > MaxTag:
		err = fmt.Errorf("%w: %d", ErrTag, tag)
	case g.Size() > 0 && g.Rank() < 0:
		err = fmt.Errorf("%w: the calling rank is not in it", ErrGroup)
	default:
		err = c.holds(g)
	}
	if err != nil {
		return nil, c.fail("CreateGroup", err)
	}
	if g.Size() == 0 {
		return nil, nil
	}
	key := madeKey{digest(g.ranks), tag}
	n := c.times(key)
	ctx := contextOf(c.ctx, n, fmt.Sprintf("group %x tag %d", key.members, tag))
	d := c.env.newComm(fmt.Sprintf("%s/g%d.%d:%d", c.path, tag, n, g.ranks[0]), ctx, c.ctx, g.Rank(), g.Size(), g.ranks)
	d.codec = c.codec
	return d, nil
}

// times counts how often a communicator was made of a group.
func (l *local) times(k madeKey) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made = map[madeKey]uint64{}
	}
	l.made[k]++
	return l.made[k]
}
