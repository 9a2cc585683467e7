package shmcoll

import "sync/atomic"

// A turn can be over for a member that has not read all lines: another member in the same turn has
// read them, and tells it (told). Reading one line takes much less time than reading all, if they
// have left the cache. This is so in turns without payload, and in those that are put together
// once (Turn.Once). There the first member that sees all lines puts them together on its own
// board. All members pass on whose board that is. It stands in their lines, so a member finds it
// when it looks for lines.
//
// What is told is no part of a line's state. A board after a restart, and a mirror, tell nothing:
// all lines are read.

// early reports whether others may tell that the turn is over. Not every member then learns
// whether all boards are reached.
func (t *Team) early() bool {
	p := &t.now
	return p.x.Need == Everybody && (p.x.Want == 0 || p.once) && t.turn%allEvery != 0
}

// toldBy is how many members are asked whether the turn is over. Without asking, an allreduce of 8 bytes on 16 ranks
// takes 1.17 of the time, a barrier of 4 and of 16 ranks 1.03 and 1.00 (EPYC, 2 CPUs, median of 10 alternations;
// 1.01, .92 and .93 where others keep the CPUs busy). Above all it is for members that do not reach all boards. Their
// lines come as frames, for which the sender has to make progress. A member that was told needs no frame; else it
// waits until the sender looks at its transport again, 1 to 64 ms later, or in its next call.
const toldBy = 3

// hears returns the place of a member that has what all want of the turn, -1 if no member tells
// it. It asks the members before this one, which may just have had this CPU.
func (t *Team) hears() int {
	if place := t.told(t.guide); place >= 0 {
		return place
	}
	for k := range min(toldBy, len(t.seats)-1) {
		i := t.me - 1 - k
		if i < 0 {
			i += len(t.seats)
		}
		if place := t.told(i); place >= 0 {
			t.guide = i
			return place
		}
	}
	return -1
}

// told returns the place that the member at place i tells, -1 if it tells none: it must be in the
// same turn, and the board it names in reach.
func (t *Team) told(i int) int {
	x, s := t.now.x, &t.seats[i]
	l := s.at(t.turn)
	if l.number() != s.base+t.turn || l.tag != x.Tag || int(l.size&^lineUnreached) != x.Want {
		return -1
	}
	return t.place(l)
}

// place returns the place that a line of this turn tells, -1 if it tells none or the board it
// names is not in reach. The rest of the line was checked before.
func (t *Team) place(l *line) int {
	place := int(atomic.LoadUint32(&l.told)) - 1
	if uint(place) >= uint(len(t.seats)) || t.now.once && t.seats[place].mirror {
		return -1
	}
	return place
}

// have ends the turn: the member at that place has what all want.
func (t *Team) have(place int) bool {
	if x := t.now.x; t.now.once {
		pool := t.pool(place)
		switch k := x.Len; {
		case k == 0:
		case x.Combine != nil:
			copy(x.Into[:k], pool[x.Off:])
		case x.Stride == k:
			copy(x.Into, pool)
		default:
			for i := range t.seats {
				copy(x.Into[i*x.Stride:][:k], pool[i*k:])
			}
		}
	}
	t.floor, t.now.done = t.turn, true
	atomic.StoreUint32(&t.own.at(t.turn).told, uint32(place+1))
	return true
}

// together returns the place of the member that has put the turn together, when all lines are
// there. It is this rank, unless another one tells that it has.
func (t *Team) together() int {
	if place := t.hears(); place >= 0 {
		return place
	}
	x, pool := t.now.x, t.pool(t.me)
	if x.Combine != nil {
		t.combine(pool, 0)
		return t.me
	}
	for i := range t.seats {
		s := &t.seats[i]
		copy(pool[i*x.Want:], s.payload(s.at(t.turn), t.turn, x.Want))
	}
	return t.me
}

// common reports whether the turn can be put together once: all members want the same.
func (x *Turn) common() bool {
	return x.Need == Everybody && !x.Own && x.TailLen == 0 && (x.Combine != nil || x.Len == x.Want)
}

// pool is where on a member's board the turn is put together: behind the payload of its line, if
// that is long. When all have posted this line, no member reads the former content any more.
// Nothing else is written there until all have posted the next one.
func (t *Team) pool(place int) []byte {
	from, to := t.now.x.pool(len(t.seats))
	return t.seats[place].long(t.turn)[from:to]
}

// pool returns the bounds of that within the place for a long payload.
func (x *Turn) pool(members int) (from, to int) {
	if x.Want > lineBody {
		from = (x.Want + lineSize - 1) &^ (lineSize - 1)
	}
	if x.Combine != nil {
		members = 1
	}
	return from, from + members*x.Want
}

// pools reports whether the turn is put together once: the caller allows it and there is room.
func (t *Team) pools(x *Turn) bool {
	_, end := x.pool(len(t.seats))
	return x.Once && x.Want > 0 && x.Want <= t.piece && end <= t.piece
}
