package rpi

import (
	"fmt"
	"slices"
)

// Turn is what a member does in one turn of a team.
type Turn struct {
	Tag int32 // of this rank's line, and of every line that it reads
	// Send is this rank's payload: as it is or, if SendStride is not 0, the SendLen
	// bytes at each multiple of it. Tail comes after it. At most Team.Piece bytes
	// together. What is copied may overwrite them.
	Send                []byte
	SendStride, SendLen int
	Tail                []byte
	Need                Need
	One                 int // a place in the team
	// Want is the length in bytes of the payload of every line that is read, of
	// which Len from Off on are copied to Into[i*Stride:] for the member at place
	// i, with FromOne to Into.
	Want     int
	Off, Len int
	Into     []byte
	Stride   int
	// Own says that nobody else reads these Len bytes of this rank's line: they are
	// taken from Send, where they lie in one piece, and are not posted.
	Own bool
	// Combine, if it is not nil, makes one of what would be copied, of Len bytes,
	// in Into. Not with FromOne.
	Combine Combiner
	// Once says that one member may put together what all want, if there is room for
	// it: the combination of all whole payloads, of which each takes its part, or the
	// payloads themselves, of which all take all. All say so, with Everybody, and
	// neither with Own nor TailLen.
	Once bool
	// TailLen is how many bytes at the end of each are copied to
	// TailInto[i*TailLen:], with FromOne to TailInto.
	TailLen  int
	TailInto []byte
}

// Need says who reads whom in a turn.
type Need uint8

const (
	Everybody Need = iota // everybody reads all lines, also its own
	FromOne               // all others read One's line
	ToOne                 // One reads all lines, also its own
)

// Combiner makes one of the contributions of several members.
type Combiner interface {
	// Combine makes dst of parts of the same length, one of each member by place,
	// which it must neither change nor keep. It is called with the engine's lock
	// held, as the boards that it reads are there only then: it must be short and
	// must not call the engine.
	Combine(dst []byte, parts [][]byte)
}

// progress is the turn that a member is in.
type progress struct {
	x       *Turn // the caller's
	busy    bool
	once    bool // x.Once, and there is room for it
	posted  bool // this rank's line; until then it waits for room
	all     bool // everybody waits for all
	done    bool
	flagged bool // a line said that its writer does not reach all
	looked  bool // for lines, since this rank's was posted
	near    bool // members are looked at in Team.order: see Team.waitedFor
	first   int  // the place of the first member waited for, or where in that order it is
	count   int  // of how many
	next    int  // how many are there
	st      Status
	err     error
	w       *waiter
}

// Take takes the team's next turn. The status is that of a line with another tag
// or length than x says, if one was read, else it has what x says; its Source
// is a place in the team. Whoever looks at that need not look at the lines.
// Errors: ErrPoisoned, ErrPeerFailed, ErrAborted, ErrDeadline. After an error, or
// such a line, the team is of no more use: that a member goes on means that it has seen
// what it waited for.
func (e *Engine) Take(t *Team, x *Turn, v *View) (Status, error) {
	e.enter()
	st, err := e.takeTurn(t, x, v)
	e.leave()
	return st, err
}

func (e *Engine) takeTurn(t *Team, x *Turn, v *View) (Status, error) {
	if e.abort.Load() != nil || v.done() {
		return Status{}, e.broken(v)
	}
	if len(e.poisoned) != 0 && e.poisoned[t.ctx] != nil {
		return Status{}, e.poisoned[t.ctx]
	}
	if err := t.begin(x); err != nil {
		return Status{}, err
	}
	if t.turn%homeEvery == 0 {
		e.goHome()
	}
	if e.dirty != 0 {
		e.flush()
	}
	p := &t.now
	if !t.advance() {
		e.awaitTurn(t, v)
	}
	p.busy = false
	t.spent = p.err != nil || p.st.Tag != int(x.Tag) || p.st.Bytes != x.Want
	p.x = nil
	return p.st, p.err
}

// length returns how many bytes the turn sends.
func (x *Turn) length() int {
	n := len(x.Send)
	if x.SendStride > 0 && n > 0 {
		last := (n - 1) / x.SendStride
		n = last*x.SendLen + min(x.SendLen, n-last*x.SendStride)
	}
	return n + len(x.Tail)
}

// own returns what this rank wants of its own line, where it lies in Send; nil:
// nothing, or not in one piece.
func (x *Turn) own() []byte {
	at, end := x.Off, len(x.Send)
	if x.SendStride > 0 && x.SendLen > 0 {
		at = x.Off/x.SendLen*x.SendStride + x.Off%x.SendLen
		end = min(end, x.Off/x.SendLen*x.SendStride+x.SendLen)
	}
	if at+x.Len > end {
		return nil
	}
	return x.Send[at : at+x.Len]
}

// write copies what the turn sends.
func (t *Team) write(dst []byte) {
	x := t.now.x
	none := -1
	switch {
	case x.Len == 0:
	case x.Own && x.SendStride > 0 && x.Len == x.SendLen:
		none = x.Off / x.SendLen * x.SendStride
	case x.Own && x.SendStride == 0:
		t.copy(dst, x.Send[:x.Off])
		t.copy(dst[x.Off+x.Len:], x.Send[x.Off+x.Len:])
		t.copy(dst[len(x.Send):], x.Tail)
		return
	}
	if x.SendStride <= 0 {
		dst = dst[t.copy(dst, x.Send):]
	}
	for at := 0; at < len(x.Send) && x.SendStride > 0; at += x.SendStride {
		if at == none {
			dst = dst[x.SendLen:]
			continue
		}
		dst = dst[t.copy(dst, x.Send[at:min(at+x.SendLen, len(x.Send))]):]
	}
	t.copy(dst, x.Tail)
}

// keep copies what is wanted of the payload of the member at place i.
func (t *Team) keep(i int, payload []byte) {
	x := t.now.x
	at := i
	if x.Need == FromOne {
		at = 0
	}
	if x.Len > 0 && x.Combine == nil {
		from, to := payload[x.Off:][:x.Len], x.Into[at*x.Stride:][:x.Len]
		if i == t.me {
			if own := x.own(); own != nil && (x.Own || &own[0] == &to[0]) {
				from = own
			}
		}
		if &from[0] != &to[0] {
			t.copy(to, from)
		}
	}
	if x.TailLen > 0 {
		t.copy(x.TailInto[at*x.TailLen:][:x.TailLen], payload[len(payload)-x.TailLen:])
	}
}

// combine combines as many bytes from off on of all payloads.
func (t *Team) combine(dst []byte, off int) {
	x := t.now.x
	parts := t.parts[:0]
	for i := range t.seats {
		s := &t.seats[i]
		parts = append(parts, s.payload(s.at(t.turn), t.turn, x.Want)[off:off+len(dst)])
	}
	if x.Own {
		parts[t.me] = x.own()
	}
	x.Combine.Combine(dst, parts)
	clear(parts)
	t.parts = parts
}

// readAgain makes the turn in progress look for all lines again, if it needs them
// all at once: a member has another board, on which what was there may not be yet.
func (t *Team) readAgain() {
	if p := &t.now; p.posted && !p.done && (p.x.Combine != nil || p.once) {
		p.next = 0
	}
}

// copy copies to or from a board.
func (t *Team) copy(dst, src []byte) int {
	if t.home == nil || len(src) <= lineBody {
		return copy(dst, src)
	}
	return t.home.Copy(dst, src)
}

// begin begins a turn, or says what is wrong with it.
func (t *Team) begin(x *Turn) error {
	p := &t.now
	switch {
	case !t.joined || t.closed || t.spent || p.busy:
		return fmt.Errorf("%w: a turn of a team that is not joined, or closed, or has failed, or is in a turn", ErrRequest)
	case x.length() > t.piece || x.SendStride < 0 || x.SendLen < 0 || x.SendLen > x.SendStride:
		return fmt.Errorf("%w: %d bytes in a line of at most %d", ErrTruncate, x.length(), t.piece)
	case !x.fits(len(t.seats)):
		return fmt.Errorf("%w: %d bytes from %d on of %d, to %d at every %d", ErrTruncate, x.Len, x.Off, x.Want, len(x.Into), x.Stride)
	}
	*p = progress{
		x: x, busy: true, once: t.pools(x), all: x.Need == Everybody || (t.turn+1)%allEvery == 0,
		st: Status{Source: t.me, Tag: int(x.Tag), Bytes: x.Want},
	}
	switch {
	case p.all || x.Need == ToOne && x.One == t.me:
		p.first, p.count = t.me+1, len(t.seats)
		if p.near = p.all && (p.once || x.Want <= lineBody); p.near { // else there is something to copy meanwhile
			p.first = t.late
		}
	case x.Need == FromOne && x.One != t.me:
		p.first, p.count = x.One, 1
	}
	return nil
}

// fits reports whether what is to be copied is there, and has a place.
func (x *Turn) fits(size int) bool {
	if x.Need == FromOne {
		size = 1
	}
	if x.TailLen < 0 || x.TailLen > x.Want || size*x.TailLen > len(x.TailInto) {
		return false
	}
	if x.Combine != nil {
		size = 1
	}
	switch {
	case x.Once && !x.common():
		return false
	case x.Len == 0:
		return true
	case x.Len < 0 || x.Off < 0 || x.Off > x.Want-x.Len || x.Stride < 0 || (size-1)*x.Stride+x.Len > len(x.Into):
		return false
	case x.Need == FromOne:
		return x.Combine == nil && !x.Own
	}
	return !x.Own || x.own() != nil
}

// wants reports whether the turn is for this rank to read that member's line.
func (t *Team) wants(i int) bool {
	switch x := t.now.x; x.Need {
	case FromOne:
		return i == x.One && i != t.me
	case ToOne:
		return t.me == x.One
	}
	return true
}

// advance does what can be done of the turn now, and reports whether it is over.
func (t *Team) advance() bool {
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
	need := n - boardBulks + 1 // who has posted that has read what is in the place
	if need <= t.floor || n <= boardBulks || p.x.length() <= lineBody {
		return true
	}
	for ; p.next < len(t.seats); p.next++ {
		s := &t.seats[p.next]
		if p.next != t.me && !s.has(need) {
			if t.dead != 0 && t.e.peers[s.rank].failed != nil {
				t.fail(t.e.peers[s.rank].failed)
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

// has reports whether the member has posted a line.
func (s *seat) has(n uint64) bool {
	if s.known >= n {
		return true
	}
	if s.at(n).number() != s.base+n {
		return false
	}
	s.known = n
	return true
}

// absent reports whether the member has given the team up without having joined it. Its
// board may be another team's by now; why it did so is told by other ways.
func (s *seat) absent() bool { return s.lines[boardDepth].number() > s.base }

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
	// The line comes last: whoever looks at it takes it away, again and again.
	l.tag, l.size, l.told = x.Tag, uint32(size), 0
	if t.apart != 0 {
		l.size |= lineApart
	}
	l.post(t.base + n)
	t.turn, p.posted = n, true
	if t.apart != 0 {
		for i := range t.seats {
			if t.seats[i].mirror {
				t.e.enlist(&t.e.peers[t.members[i]])
			}
		}
	}
}

// read reads the lines that are there, and reports whether the turn is over.
func (t *Team) read() bool {
	p := &t.now
	n := t.turn
	early := t.early()
	if p.looked && early { // who has just posted is not told yet
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
			return t.fail(spoilt(s.rank))
		}
		tag, size := l.tag, l.size
		p.flagged = p.flagged || size&lineApart != 0
		size &^= lineApart
		if int(size) > t.piece {
			return t.fail(spoilt(s.rank))
		}
		if p.next++; !t.wants(i) {
			continue
		}
		x := p.x
		if tag != x.Tag || int(size) != x.Want {
			p.st.Source, p.st.Tag, p.st.Bytes = i, int(tag), int(size)
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

// tell wakes those who sleep because of the line just posted. Where all wait
// for all it is the last one who posts that sees all lines. Where a rank does
// not reach all, it cannot know who is the last.
func (t *Team) tell() {
	p := &t.now
	switch {
	case t.home == nil:
	case t.apart != 0, p.all && p.done:
		t.home.Ring(t.direct)
	case p.all: // nobody asks for room: who has seen the end of this turn knows of this line
	case t.home.Asked(t.slot), p.x.Need == FromOne && p.x.One == t.me:
		t.home.Ring(t.direct)
	case p.x.Need == ToOne && p.x.One != t.me:
		if one := t.members[p.x.One]; t.home.Asleep(one) && t.complete() {
			t.home.Ring(t.members[p.x.One : p.x.One+1])
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

// miss fails the turn if a line that is still needed is that of a rank that has
// failed.
func (t *Team) miss() {
	p := &t.now
	for k := p.next; k < p.count; k++ {
		s := &t.seats[t.waitedFor(k)]
		if s.rank == t.e.rank {
			continue
		}
		if err := t.e.peers[s.rank].failed; err != nil && !s.has(t.turn) {
			t.fail(err)
			return
		}
	}
}

func spoilt(rank int) error {
	return peerFailed(rank, fmt.Errorf("%w: a line that cannot be", errCorrupt))
}

// fail ends the turn with an error.
func (t *Team) fail(err error) bool {
	t.now.err, t.now.st, t.now.done = err, Status{}, true
	return true
}

// awaitTurn waits for the end of a turn.
func (e *Engine) awaitTurn(t *Team, v *View) {
	var s spell
	p := &t.now
	e.flush()
	e.turns = append(e.turns, t)
	if e.lead != leadCaller && e.blocked.head == nil {
		e.leadTurn(t, v, &s)
		if p.done {
			if e.blocked.head != nil || e.back.parked {
				e.handOver()
			}
			return
		}
	}
	if !p.posted && e.inWait.Load() {
		e.waiter.Wake() // who sleeps for all callers has not asked for room
	}
	w := e.newWaiter()
	w.team, p.w = t, w
	if err := e.await(w, v, &s); err != nil {
		t.fail(err)
		e.endTurn(t)
	}
	p.w = nil
	e.freeWaiting(w)
}

// leadTurn is the wait for a turn of the only caller that waits: see leadAlone.
func (e *Engine) leadTurn(t *Team, v *View, s *spell) {
	e.takeLead()
	e.turnAlone = t
	p := &t.now
	if e.pace.spin == 0 && e.yieldFor(t) {
		e.endTurn(t)
	}
	for !p.done && e.abort.Load() == nil && !v.done() {
		switch moved := e.poll(); {
		case e.woke:
			e.woke = false
			e.stepAside()
		case moved:
			if !p.done {
				*s = spell{}
				if e.mu.contended() {
					e.stepAside()
				}
			}
			continue
		case !e.rest(s):
			e.turnAlone, e.lead = nil, leadNobody
			return
		}
	}
	e.turnAlone, e.lead = nil, leadNobody
}

// yieldsFirst is how often a rank that shares its CPU lets others have it before
// it polls, which with many ranks costs more than the turn of each.
const yieldsFirst = 4

// yieldFor lets other ranks have the CPU, whose lines the turn waits for.
func (e *Engine) yieldFor(t *Team) bool {
	for range yieldsFirst {
		if len(e.ready) != 0 || e.mu.contended() {
			return false
		}
		if t.lookOn() {
			return true
		}
		e.yieldTurn()
		if t.advance() {
			return true
		}
	}
	return false
}

// pollTurns goes on with the turns that callers wait for.
func (e *Engine) pollTurns() (moved bool) {
	if e.mu.gate() {
		return false
	}
	for i := 0; i < len(e.turns); {
		if t := e.turns[i]; t.advance() {
			e.endTurn(t)
			moved = true
			continue
		}
		i++
	}
	return moved
}

// armTurns lets this rank sleep unless a line has come. What comes from now on
// wakes it.
func (e *Engine) armTurns() bool {
	for _, t := range e.turns {
		for p := &t.now; ; {
			lag := p.next
			if !p.posted && lag < len(t.seats) && !t.seats[lag].mirror && t.home != nil {
				t.home.Ask(t.members[lag], t.seats[lag].slot)
			}
			if t.advance() {
				return false
			}
			if p.posted || p.next == lag {
				break
			}
		}
	}
	return len(e.ready) == 0
}

// endTurn tells who waits for a turn that it is over.
func (e *Engine) endTurn(t *Team) {
	if i := slices.Index(e.turns, t); i >= 0 {
		e.turns = slices.Delete(e.turns, i, i+1)
	}
	if w := t.now.w; w != nil && !w.ready {
		e.satisfy(w)
	}
}

// String describes the turn in progress.
func (t *Team) String() string {
	p := &t.now
	n, what, next := t.turn, "room", p.next
	if p.posted && p.next < p.count {
		what, next = "line", t.waitedFor(p.next)
	} else if !p.posted {
		n++
	}
	return fmt.Sprintf("turn %d of %d ranks, for the %s of rank %d (tag %d, ctx %#x)", n, len(t.seats), what, t.members[next%len(t.seats)], p.x.Tag, t.ctx)
}

// evenTurns returns a CutError if some member of a team that is of use has taken
// another number of turns than this rank.
func (e *Engine) evenTurns() error {
	for _, t := range e.teams {
		if !t.joined || t.closed || e.poisoned[t.ctx] != nil {
			continue
		}
		for i := range t.seats {
			s := &t.seats[i]
			ahead := s.at(t.turn+1).number() > s.base+t.turn
			if i != t.me && (ahead || t.turn > 0 && s.at(t.turn).number() < s.base+t.turn) {
				return &CutError{t.ctx, s.rank, ahead}
			}
		}
	}
	return nil
}
