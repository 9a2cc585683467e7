package shmcoll

import "fmt"

// Turn is what a member does in one turn of a team.
type Turn struct {
	Tag int32 // of this rank's line, and of every line that it reads
	// Send is this rank's payload: all of it or, if SendStride is not 0, the SendLen bytes at each
	// multiple of SendStride. Tail comes after it. Together they have at most Team.Piece bytes.
	// What is copied may overwrite them.
	Send                []byte
	SendStride, SendLen int
	Tail                []byte
	Need                Need
	One                 int // a place in the team
	// Want is the length in bytes of the payload of every line that is read. Of that, Len bytes
	// from Off on are copied: for the member at place i to Into[i*Stride:], with FromOne to Into.
	Want     int
	Off, Len int
	Into     []byte
	Stride   int
	// Own says that no other member reads these Len bytes of this rank's line. They are taken
	// from Send, where they lie in one piece, and are not posted.
	Own bool
	// Combine, if it is not nil, makes Len bytes in Into of all that would be copied. It does not
	// go with FromOne.
	Combine Combiner
	// Once says that one member may put together what all want, if there is room for it. With
	// Combine that is the combination of all whole payloads, of which each member takes its part.
	// Without, it is the payloads themselves, all of which each member takes. All members say so,
	// with Everybody, and neither with Own nor TailLen.
	Once bool
	// TailLen is how many bytes at the end of each payload are copied to TailInto[i*TailLen:],
	// with FromOne to TailInto.
	TailLen  int
	TailInto []byte
}

// Need says which members read which lines in a turn.
type Need uint8

const (
	Everybody Need = iota // every member reads all lines, also its own
	FromOne               // all others read One's line
	ToOne                 // One reads all lines, also its own
)

// Combiner makes one of the contributions of several members.
type Combiner interface {
	// Combine makes dst of parts of the same length, one of each member, by place. It must neither
	// change nor keep them. It is called with the engine's lock held, as the boards that it reads
	// are there only then. So it must be short and must not call the engine.
	Combine(dst []byte, parts [][]byte)
}

// progress is the turn that a member is in.
type progress struct {
	x       *Turn // the caller's
	busy    bool
	once    bool // it is put together once: x.Once, and there is room
	posted  bool // this rank's line is; until then it waits for room
	all     bool // each member waits for all
	done    bool
	flagged bool // a line said that its writer does not reach all boards
	looked  bool // looked for lines since this rank's was posted
	ordered bool // waits in Team.order: see Team.waitedFor
	first   int  // the place, or if ordered the number, of the first member waited for
	count   int  // how many members are waited for
	next    int  // how many of their lines are there
	place   int  // what End returns
	tag     int
	bytes   int
	err     error
}

// Begin begins the team's next turn. Errors: ErrTurn, ErrLength.
func (t *Team) Begin(x *Turn) error {
	p := &t.now
	switch {
	case !t.joined || t.closed || t.spent || p.busy:
		return ErrTurn
	case x.length() > t.piece || x.SendStride < 0 || x.SendLen < 0 || x.SendLen > x.SendStride:
		return fmt.Errorf("%w: %d bytes in a line of at most %d", ErrLength, x.length(), t.piece)
	case !x.fits(len(t.seats)):
		return fmt.Errorf("%w: %d bytes from %d on of %d, to %d at every %d", ErrLength, x.Len, x.Off, x.Want, len(x.Into), x.Stride)
	}
	*p = progress{
		x: x, busy: true, once: t.pools(x), all: x.Need == Everybody || (t.turn+1)%allEvery == 0,
		place: t.me, tag: int(x.Tag), bytes: x.Want,
	}
	switch {
	case p.all || x.Need == ToOne && x.One == t.me:
		p.first, p.count = t.me+1, len(t.seats)
		if p.ordered = p.all && (p.once || x.Want <= lineBody); p.ordered { // else there is something to copy meanwhile
			p.first = t.late
		}
	case x.Need == FromOne && x.One != t.me:
		p.first, p.count = x.One, 1
	}
	return nil
}

// End ends the turn. If a line was read with another tag or length than x says, it returns that
// line's place, tag and length, else this rank's place and what x says. A caller that looks at
// these need not look at the lines. After an error, or such a line, the team cannot be used any
// more: other members rely on each member going on only when it has seen the lines that it
// waited for.
func (t *Team) End() (place, tag, bytes int, err error) {
	p := &t.now
	p.busy = false
	t.spent = p.err != nil || p.tag != int(p.x.Tag) || p.bytes != p.x.Want
	p.x = nil
	return p.place, p.tag, p.bytes, p.err
}

// Context returns the communicator's context.
func (t *Team) Context() uint64 { return t.ctx }

// Number returns the number of the last turn whose line this rank has posted.
func (t *Team) Number() uint64 { return t.turn }

// Done reports whether the turn is over.
func (t *Team) Done() bool { return t.now.done }

// Posted reports whether this rank has posted its line; until then it waits for room.
func (t *Team) Posted() bool { return t.now.posted }

// readAgain makes the turn in progress look for all lines again, if it needs them all at once. A
// member has another board, and the lines that were on the old one may not be there yet.
func (t *Team) readAgain() {
	if p := &t.now; p.posted && !p.done && (p.x.Combine != nil || p.once) {
		p.next = 0
	}
}

// wants reports whether this rank reads the line of the member at place i.
func (t *Team) wants(i int) bool {
	switch x := t.now.x; x.Need {
	case FromOne:
		return i == x.One && i != t.me
	case ToOne:
		return t.me == x.One
	}
	return true
}

// Advance goes on with the turn as far as possible, and reports whether it is over.
func (t *Team) Advance() bool {
	p := &t.now
	if p.done || p.posted {
		return p.done || t.read()
	}
	if !t.room() {
		return p.done
	}
	t.post()
	t.read()
	t.tell()
	return p.done
}

// room reports whether this rank may post its line.
func (t *Team) room() bool {
	p := &t.now
	n := t.turn + 1
	need := n - boardBulks + 1 // a member that has posted it has read what is in the place
	if need <= t.floor || n <= boardBulks || p.x.length() <= lineBody {
		return true
	}
	for ; p.next < len(t.seats); p.next++ {
		s := &t.seats[p.next]
		if p.next != t.me && !s.has(need) {
			if err := t.failed(s.rank); err != nil {
				t.Fail(err)
			}
			return false
		}
	}
	t.floor = n - 1
	for i := range t.seats {
		if i != t.me {
			t.floor = min(t.floor, t.seats[i].known)
		}
	}
	p.next = 0
	return true
}

// has reports whether the member has posted line n.
func (s *Seat) has(n uint64) bool {
	if s.known >= n {
		return true
	}
	if s.at(n).number() != s.base+n {
		return false
	}
	s.known = n
	return true
}

// absent reports whether the member has given the team up without having joined it. Its board may
// be another team's by now. Why it did so is told in other ways.
func (s *Seat) absent() bool { return s.lines[boardDepth].number() > s.base }

// post posts this rank's line.
func (t *Team) post() {
	p := &t.now
	x := p.x
	n := t.turn + 1
	l := t.own.at(n)
	size := x.length()
	if size > lineBody {
		t.longs[n%boardBulks] = n
		t.write(t.own.long(n))
	} else {
		t.write(l.body[:])
	}
	// The line comes last: a member that looks at it takes it away, again and again.
	l.tag, l.size, l.told = x.Tag, uint32(size), 0
	if t.unreached != 0 {
		l.size |= lineUnreached
	}
	l.post(t.base + n)
	t.turn, p.posted = n, true
	if t.unreached != 0 {
		for i := range t.seats {
			if t.seats[i].mirror {
				t.set.host.Enlist(t.members[i])
			}
		}
	}
}

// read reads the lines that are there, and reports whether the turn is over.
func (t *Team) read() bool {
	p := &t.now
	n := t.turn
	early := t.early()
	if p.looked && early { // not at once after posting: no member can tell yet
		if place := t.hears(); place >= 0 {
			return t.have(place)
		}
	}
	p.looked = true
	for p.next < p.count {
		i := t.waitedFor(p.next)
		s := &t.seats[i]
		l := s.at(n)
		switch w := l.number(); {
		case w < s.base+n, w > s.base+n && s.absent():
			if t.dead != 0 {
				t.miss()
			}
			t.comesLate(p.next)
			return p.done
		case w > s.base+n:
			return t.Fail(t.spoilt(s.rank))
		}
		tag, size := l.tag, l.size
		p.flagged = p.flagged || size&lineUnreached != 0
		size &^= lineUnreached
		if int(size) > t.piece {
			return t.Fail(t.spoilt(s.rank))
		}
		if p.next++; !t.wants(i) {
			continue
		}
		x := p.x
		if tag != x.Tag || int(size) != x.Want {
			p.place, p.tag, p.bytes = i, int(tag), int(size)
			p.done = true
			return true
		}
		if early {
			if place := t.place(l); place >= 0 {
				t.guide = i
				return t.have(place)
			}
		}
		if !p.once && (x.Len > 0 || x.TailLen > 0) {
			t.keep(i, s.payload(l, n, int(size)))
		}
	}
	t.over = t.over || p.all && p.flagged && !t.early()
	switch x := p.x; {
	case p.once:
		return t.have(t.together())
	case t.early():
		return t.have(t.me)
	case x.Combine != nil && x.Len > 0 && t.wants(t.me):
		t.combine(x.Into[:x.Len], x.Off)
	}
	if p.all {
		t.floor = n
	}
	p.done = true
	return true
}

// tell wakes members that sleep because of the line just posted. Where all wait for all, the last
// one that posts sees all lines, and it wakes the others. A rank that does not reach all boards
// cannot know which is the last.
func (t *Team) tell() {
	p := &t.now
	switch {
	case t.module == nil:
	case t.unreached != 0, p.all && p.done:
		t.module.Ring(t.direct)
	case p.all: // no member asks for room: one that has seen the end of this turn knows of this line
	case t.module.Asked(t.slot), p.x.Need == FromOne && p.x.One == t.me:
		t.module.Ring(t.direct)
	case p.x.Need == ToOne && p.x.One != t.me:
		if one := t.members[p.x.One]; t.module.Asleep(one) && t.complete() {
			t.module.Ring(t.members[p.x.One : p.x.One+1])
		}
	}
}

// complete reports whether all lines of the turn are there.
func (t *Team) complete() bool {
	for i := range t.seats {
		if !t.seats[i].has(t.turn) {
			return false
		}
	}
	return true
}

// miss fails the turn if a line that is still needed is missing and its writer has failed.
func (t *Team) miss() {
	p := &t.now
	for k := p.next; k < p.count; k++ {
		s := &t.seats[t.waitedFor(k)]
		if s.rank == t.members[t.me] {
			continue
		}
		if err := t.failed(s.rank); err != nil && !s.has(t.turn) {
			t.Fail(err)
			return
		}
	}
}

func (t *Team) spoilt(rank int) error {
	return t.set.host.Spoilt(rank, fmt.Errorf("%w: a line that cannot be", ErrCorrupt))
}

// failed returns why a member has failed, nil if it has not.
func (t *Team) failed(rank int) error {
	if t.dead == 0 {
		return nil
	}
	return t.set.host.Failed(rank)
}

// Fail ends the turn with an error.
func (t *Team) Fail(err error) bool {
	t.now.err, t.now.place, t.now.tag, t.now.bytes, t.now.done = err, 0, 0, 0, true
	return true
}

// Arm is Advance for a rank that is about to sleep: from now on a line that it waits for, or that
// makes room, wakes it.
func (t *Team) Arm() (over bool) {
	for p := &t.now; ; {
		lag := p.next
		if !p.posted && lag < len(t.seats) && !t.seats[lag].mirror && t.module != nil {
			t.module.Ask(t.members[lag], t.seats[lag].slot)
		}
		if t.Advance() {
			return true
		}
		if p.posted || p.next == lag {
			return false
		}
	}
}

// String describes the turn in progress.
func (t *Team) String() string {
	p := &t.now
	n, what := t.turn, "room"
	if p.posted && p.next < p.count {
		what = "line"
	} else if !p.posted {
		n++
	}
	return fmt.Sprintf("turn %d of %d ranks, for the %s of rank %d (tag %d, %s)", n, len(t.seats), what, t.Awaited(), p.x.Tag, t.set.host.On(t.ctx))
}

// Awaited returns the rank in the world without which the turn does not go on, the first if there are several.
func (t *Team) Awaited() int {
	p := &t.now
	next := p.next
	if p.posted && p.next < p.count {
		next = t.waitedFor(p.next)
	}
	return t.members[next%len(t.seats)]
}
