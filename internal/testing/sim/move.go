package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// Ranks that move to other agents while the others stay. A rank here is its present process. The other one, which
// is being restored elsewhere or stands where the rank was, is a shade: it does nothing, or something is wrong.
//
//	before the switch      the rank: captured, it stands       a shade: restored, it waits
//	after it               a shade: it stands                  the rank: on its way into the incarnation
//	after a revert         the rank, as it was captured        the shade is known to be gone
//
// Moves have their own dice, so that schedules without any are what they would be.

// travel is a wish for a move, planned as deaths are, and what goes wrong with it.
type travel struct {
	step   int64
	event  int
	mishap mishap
	delay  int // events at the head from the beginning of the move to the mishap
}

type mishap uint8

const (
	noMishap mishap = iota
	targetDies
	targetCut   // its stream ends, it lives
	newDies     // a process on its way up
	oldDies     // the process that is to be replaced
	sourceDies  // its agent
	stayerDies  // a rank that stays
	notRestored // an agent cannot restore a rank
	cannotCome  // a rank cannot open its transport
	slowRestore // the limit of the move passes
	noRoom      // not all agents can be begun
	mishaps
)

// voyage is the move under way, as the head's driver knows it.
type voyage struct {
	travel
	id      uint64
	ranks   []int
	targets []*node
	share   map[int]*node
	from    map[int]*node
	places  []place // before
	next    uint64
	back    uint64
	brought int  // the images that have gone ahead
	due     int  // the event at which its mishap comes; 0: it has come
	away    bool // the switch has been
	killed  []int
	lost    bool
	state   map[int]bearing // of the ranks that move, when they stood
}

// bearing is the part of a process that changes although its gate is closed.
type bearing struct {
	app    app
	points points
	holder holder
	sent   []uint64
}

// shade is a process of a rank beside the present one.
type shade struct {
	rank  int
	n     *node
	alive bool
	fresh bool // it is being restored
	runs  bool // mutant: it was let go
}

// coming is how far a rank is on its way into another incarnation of its life.
type coming uint8

const (
	there    coming = iota
	opening         // its transport is open again, and it waits for the others'
	reaching        // it has told whom it reaches
	joined          // it is up, and waits for all to be
	stranded        // it cannot come
)

// roam plans moves.
func (p *plan) roam(rng *rand.Rand) {
	if rng.IntN(4) > 0 {
		return
	}
	p.travels = 1 + rng.IntN(3)
	p.mishaps = rng.IntN(2) == 0
}

func (w *world) planTravels() {
	for range w.plan.travels {
		var t travel
		if w.dice.IntN(2) == 0 {
			t.step = 1 + w.dice.Int64N(int64(w.np*w.plan.rounds*100))
		} else {
			t.event = 3*w.np + w.dice.IntN(14*w.np)
		}
		if w.plan.mishaps {
			t.mishap, t.delay = mishap(w.dice.IntN(int(mishaps))), 1+w.dice.IntN(14*w.np)
		}
		w.travels = append(w.travels, t)
	}
}

// maybeTravel asks for a move that is due, and lets its mishap happen.
func (w *world) maybeTravel() {
	h := w.head
	for i, t := range w.travels {
		if h.job.AllSpawned() && !h.ended && (t.step > 0 && w.now >= t.step || t.event > 0 && w.crossing >= t.event) {
			w.travels = slices.Delete(w.travels, i, i+1)
			w.travel(t)
			return
		}
	}
	if v := h.voyage; v != nil && v.due > 0 && w.crossing >= v.due {
		v.due = 0
		w.befalls(v)
	}
}

func (w *world) travel(t travel) {
	var ranks []int
	for len(ranks) == 0 {
		for r := range w.np {
			if w.dice.IntN(3) == 0 {
				ranks = append(ranks, r)
			}
		}
	}
	w.requests++
	id := uint64(w.requests)
	w.head.moving[id] = t
	w.logf("request %d: ranks %v are to move, mishap %d", id, ranks, t.mishap)
	w.feed(joblife.Event{Type: joblife.EvMove, ID: id, Ranks: ranks})
}

// moves does what the head's driver does for a move.
func (w *world) moves(a *joblife.Action) {
	switch a.Type {
	case joblife.ActJoin:
		w.joins(a)
	case joblife.ActRestore:
		w.restores(a)
	case joblife.ActSwitch:
		w.switches(a)
	case joblife.ActMoved:
		w.moved(a)
	}
}

// joins starts one or two agents for a move.
func (w *world) joins(a *joblife.Action) {
	h := w.head
	v := &voyage{travel: h.moving[a.ID], id: a.ID, ranks: a.Ranks, share: map[int]*node{}, from: map[int]*node{}, state: map[int]bearing{}, places: w.places}
	v.next, v.back = w.dice.Uint64()|1, w.dice.Uint64()|1
	v.due = w.crossing + v.delay
	h.voyage = v
	life := w.life()
	for _, r := range v.ranks {
		v.from[r] = h.nodes[w.agentOf(r)]
	}
	w.later(50, func() {
		ev := joblife.Event{Type: joblife.EvJoined, Life: life}
		ev.Begun.Incarnation, ev.Begun.Back, ev.Begun.Restore = v.next, v.back, 5_000_000
		if v.mishap == slowRestore {
			ev.Begun.Restore = 1 + w.dice.Int64N(300)
		}
		for _, share := range w.shares(v.ranks) {
			n := &node{w: w, index: len(h.nodes), life: life, m: w.settler()}
			n.dead = n.m != nil && n.m.ended
			for _, r := range share {
				v.share[r] = n
			}
			v.targets = append(v.targets, n)
			h.nodes = append(h.nodes, n)
			h.lives[life-1] = h.nodes
			ev.Begun.Agents = append(ev.Begun.Agents, joblife.Agent{Host: "target", PID: 1 + n.index, Ranks: share, Own: n.m == nil})
			if v.mishap == noRoom {
				ev.Verdict = &joblife.Verdict{Text: "there is no room"}
				break
			}
		}
		w.feed(ev)
	})
}

// shares divides ranks among one or two agents.
func (w *world) shares(ranks []int) [][]int {
	if cut := w.dice.IntN(len(ranks)); cut > 0 {
		return [][]int{ranks[:cut], ranks[cut:]}
	}
	return [][]int{ranks}
}

// settler is choose for an agent of a move.
func (w *world) settler() *machine {
	var live []*machine
	for _, m := range w.machines {
		if !m.given {
			live = append(live, m)
		}
	}
	if len(live) == 0 || w.dice.IntN(6) == 0 {
		return nil
	}
	return live[w.dice.IntN(len(live))]
}

// arrives decides whether what goes ahead of a move comes where the ranks go.
func (w *world) arrives(a *ckpt.HeadAction) {
	v := w.head.voyage
	if v == nil {
		return
	}
	ev := ckpt.HeadEvent{Type: ckpt.HvAhead, Seq: a.Seq}
	if w.dice.IntN(8) == 0 {
		if ev.Err = "no space left on device"; w.breaks(aheadUnread) {
			ev.Err = ""
		}
	} else {
		v.brought = a.Seq
	}
	w.feedCkpt(ev)
}

// restores tells the new agents to restore ranks, from images that must be there.
func (w *world) restores(a *joblife.Action) {
	v := w.head.voyage
	for _, r := range v.ranks {
		if w.store.pending[a.Ckpt.Seq][r] == nil {
			w.violate("rank %d is to be restored from an image that is not there", r)
		}
		if base := a.Ckpt.Images[r].Base; base != 0 && v.brought != base {
			w.violate("rank %d is to be restored from an image that builds on %d; %d has gone ahead", r, base, v.brought)
		} else if base != 0 {
			w.seen.wentAhead++
		}
		x := w.ranks[r]
		v.state[r] = x.bearing()
		n := v.share[r]
		s := &shade{rank: r, n: n, fresh: true}
		w.shades = append(w.shades, s)
		w.later(120, func() { w.restored(v, s) })
	}
}

func (w *world) restored(v *voyage, s *shade) {
	n := s.n
	switch {
	case n.dead || n.ended || n.bye || w.head.voyage != v:
		return
	case n.m != nil && !n.m.speaks():
		w.later(120, func() { w.restored(v, s) })
		return
	}
	m := oob.Msg{Kind: oob.Spawn, From: int32(s.rank), To: oob.Head, A: oob.SpawnWaits, B: 8}
	if v.mishap == notRestored && v.due == 0 {
		m.Kind, m.A, m.Data = oob.Exit, 1<<8, []byte("no memory")
	} else {
		s.alive = true
	}
	w.putLetter(m.From, m.To, letter{m, w.started, n.index})
}

// bearing is a copy of what may change in a rank that stands.
func (r *rank) bearing() bearing {
	b := bearing{r.app, r.points, r.holder, slices.Clone(r.e.Sent())}
	b.app.threads = slices.Clone(r.app.threads)
	return b
}

// switches begins another incarnation in the ranks that have a part in it. In a revert these are the old
// processes.
func (w *world) switches(a *joblife.Action) {
	v := w.head.voyage
	w.logf("head: incarnation %x begins, back %v", a.Incarnation, a.Back)
	w.incarnation = a.Incarnation
	w.head.attempt = 0
	w.net.before()
	for _, r := range v.ranks {
		w.exchange(v, r, a.Back)
	}
	if v.away = !a.Back; a.Back {
		w.seen.movedBack++
	}
	w.resettle(v)
	if w.plan.moves && w.dice.IntN(2) == 0 {
		w.shape = newShape(w.dice, w.plan)
		w.logf("the transport is another one: %+v", w.shape)
	}
	w.net.forgo()
	w.members()
	for r := range w.ranks {
		if a.Back || v.share[r] == nil {
			w.put(oob.Head, int32(r), oob.Msg{Kind: oob.Start, From: oob.Head, To: int32(r), Incarnation: a.Incarnation})
		}
	}
}

// exchange makes another process of a rank the present one.
func (w *world) exchange(v *voyage, r int, back bool) {
	x, i := w.ranks[r], slices.IndexFunc(w.shades, func(s *shade) bool {
		return s.rank == r && s.fresh == !back && (s.n == v.share[r] || s.n == v.from[r])
	})
	s := w.shades[i]
	was := &shade{rank: r, n: v.share[r], alive: x.alive, fresh: back}
	if !back {
		was.n = v.from[r]
		was.runs = w.breaks(sourceResumed)
		w.at[r] = v.share[r].index
	} else {
		if was.alive {
			w.violate("rank %d goes back, and its new process may run", r)
		}
		w.at[r] = v.from[r].index
		b := v.state[r]
		if !slices.Equal(b.sent, x.e.Sent()) {
			w.violate("rank %d has sent something since it was captured", r)
		}
		threads := x.app.threads // a caller that waits at the gate is in one of them
		copy(threads, b.app.threads)
		x.app, x.points, x.holder = b.app, b.points, b.holder
		x.app.threads = threads
	}
	w.shades[i] = was
	x.alive, x.reaped, x.stands, x.made = s.alive, false, false, true
	x.agent = imager{}
}

// resettle gives all ranks new addresses, and the agents their ranks.
func (w *world) resettle(v *voyage) {
	h := w.head
	w.places = slices.Clone(w.places)
	w.addresses++
	for _, n := range h.nodes {
		n.ranks = nil
	}
	for r := range w.np {
		n := h.nodes[w.at[r]]
		n.ranks = append(n.ranks, r)
		w.places[r] = place{n.m, len(n.ranks), 1_000_000 + w.addresses}
	}
}

// travels takes a frame that leads into another incarnation. It reports whether it was one.
func (r *rank) travels(m *oob.Msg) bool {
	w := r.w
	switch m.Kind {
	case oob.Start:
		r.reopens(m.Incarnation)
	case oob.Peers:
		if m.Incarnation == r.inc && r.coming == opening {
			r.meets()
		}
	case oob.Routes:
		if m.Incarnation == r.inc && r.coming == reaching {
			r.joins()
		}
	case oob.Running:
		if m.Incarnation == r.inc && r.coming == joined {
			r.goesOn()
		}
	case oob.Bookmark: // of a rank that goes on already
		return r.coming != there && r.coming != joined
	default:
		return r.coming != there && !w.breaks(incarnationIgnored)
	}
	return true
}

// reopens is the beginning: nobody knows the rank's new address yet.
func (r *rank) reopens(inc uint64) {
	w := r.w
	if r.coming == there && (r.m.State() != ckpt.Ready || !r.drv.closed) {
		w.violate("rank %d is to begin another incarnation, and is %v", r.id, r.m.State())
	}
	w.logf("rank %d begins incarnation %x", r.id, inc)
	r.inc, r.coming = inc, opening
	if _, err := r.mod.Restart(rpi.Env{Rank: r.id, Size: w.np, Incarnation: inc, Sink: r.e.Sink(0)}); err != nil {
		w.violate("rank %d: module does not restart: %v", r.id, err)
	}
	r.m = ckpt.NewRank(r.id, w.np, inc, w.plan.sparse)
	r.drv, r.agent = driver{inbox: r.drv.inbox, closed: true, settled: true}, imager{}
	r.greets()
	r.says(oob.Address, `{"modules":{"sim":"Ag=="},"arch":"sim"}`)
	if w.breaks(openBeforeRunning) {
		r.meets()
		r.joins()
		r.goesOn()
	}
}

func (r *rank) says(kind oob.Kind, data string) {
	r.w.send(oob.Msg{Kind: kind, From: int32(r.id), To: oob.Head, Incarnation: r.inc, Data: []byte(data)})
}

// meets follows when all transports are open.
func (r *rank) meets() {
	w := r.w
	if v := w.head.voyage; v != nil && v.mishap == cannotCome && v.due == 0 && w.dice.IntN(w.np) == 0 {
		r.coming = stranded
		w.seen.strayed++
		w.head.cut = w.head.cut || w.head.reverting // then there is no way left
		w.send(oob.Msg{Kind: oob.Failure, From: int32(r.id), To: oob.Head, Incarnation: r.inc, B: oob.FailureStands, Data: []byte("it has no descriptors left")})
		return
	}
	if !w.breaks(oldPlaces) {
		r.mod.known = w.places
	}
	r.coming = reaching
	r.says(oob.Reach, `{"order":["sim"],"opened":["sim"]}`)
}

// joins follows when it is known who reaches whom.
func (r *rank) joins() {
	w := r.w
	if err := r.e.Restarted(r.mod.modules(), nil); err != nil {
		w.violate("rank %d: %v", r.id, err)
	}
	r.mod.spoil()
	r.coming = joined
	w.send(oob.Msg{Kind: oob.Up, From: int32(r.id), To: oob.Head, Incarnation: r.inc})
	r.holdAgain()
	if r.app.stage == finishing && !w.breaks(finalizeNotRepeated) {
		r.wantFinalize()
	}
}

// goesOn follows when all are up.
func (r *rank) goesOn() {
	w := r.w
	w.logf("rank %d goes on in incarnation %x", r.id, r.inc)
	for _, x := range w.ranks {
		if x.alive && (x.inc != r.inc || x.coming != there && x.coming != joined) {
			w.violate("rank %d goes on in incarnation %x, and rank %d is not there", r.id, r.inc, x.id)
		}
	}
	for _, s := range w.shades {
		if s.rank == r.id && s.alive && (s.runs || s.fresh) {
			w.violate("two processes of rank %d run", r.id)
		}
	}
	r.coming = there
	r.open()
}

// moved takes the answer to a wish.
func (w *world) moved(a *joblife.Action) {
	h := w.head
	t, asked := h.moving[a.ID]
	if !asked {
		w.violate("request %d is answered twice", a.ID)
	}
	delete(h.moving, a.ID)
	w.logf("request %d: %q", a.ID, a.Text)
	v := h.voyage
	if v == nil || v.id != a.ID {
		w.seen.notMoved++
		return
	}
	h.voyage = nil
	if a.Text != "" {
		w.seen.reverted++
		return
	}
	w.seen.moved++
	w.seen.movers += len(v.ranks)
	if t.mishap == noRoom {
		w.violate("ranks %v have moved, which could not be", v.ranks)
	}
	for _, r := range v.killed { // they are ranks of the job like any other
		h.killed[r] = true
	}
	h.cut = h.cut || v.lost
}

// befalls is the mishap of a move.
func (w *world) befalls(v *voyage) {
	h := w.head
	mover := v.ranks[w.dice.IntN(len(v.ranks))]
	var n *node
	if v.share[mover] != nil {
		n = v.share[mover]
	}
	w.logf("mishap %d of a move", v.mishap)
	switch v.mishap {
	case targetDies:
		if n != nil && !n.dead {
			v.lost = true
			n.die()
		}
	case targetCut:
		if n != nil && !n.ended {
			v.lost = true
			n.end()
		}
	case newDies:
		if x := w.ranks[mover]; v.away && x.alive && !x.left {
			v.killed = append(v.killed, mover)
			x.ends(uint64(syscall.SIGKILL))
		}
	case oldDies:
		if v.away {
			h.orphans[mover] = true
			w.endShades(func(s *shade) bool { return s.rank == mover && !s.fresh }, uint64(syscall.SIGKILL))
		} else if x := w.ranks[mover]; x.alive && !x.left {
			h.killed[mover] = true
			x.ends(uint64(syscall.SIGKILL))
		}
	case sourceDies:
		if from := v.from[mover]; !from.dead {
			for _, r := range v.ranks {
				h.orphans[r] = h.orphans[r] || v.from[r] == from
			}
			h.cut = h.cut || !v.away || len(from.ranks) > 0
			from.die()
		}
	case stayerDies:
		if x := w.ranks[w.dice.IntN(w.np)]; v.share[x.id] == nil && x.alive && !x.left {
			h.killed[x.id] = true
			x.ends(uint64(syscall.SIGKILL))
		}
	}
	w.seen.mishaps++
}

// endShades ends processes beside the present ones. With a status their agents tell the head.
func (w *world) endShades(which func(*shade) bool, status uint64) {
	for _, s := range w.shades {
		if !s.alive || !which(s) {
			continue
		}
		s.alive = false
		w.logf("another process of rank %d ends, status %d", s.rank, status)
		if status != 0 && !s.n.ended && !s.n.dead {
			m := oob.Msg{Kind: oob.Exit, From: int32(s.rank), To: oob.Head, A: status}
			w.putLetter(m.From, m.To, letter{m, w.started, s.n.index})
		}
	}
}

// replaced is the head's order to end an old process.
func (n *node) replaced(rank int) {
	if n.dead || !n.present() {
		return
	}
	if n.m != nil && !n.m.hears() {
		n.w.later(100, func() { n.replaced(rank) })
		return
	}
	n.w.endShades(func(s *shade) bool { return s.n == n && s.rank == rank && !s.fresh }, uint64(syscall.SIGKILL))
}

// embarks lets restored ranks take their first step, which is into the incarnation.
func (n *node) embarks(inc uint64) {
	w := n.w
	for _, r := range n.ranks {
		if x := w.ranks[r]; x.alive && x.inc != inc {
			m := oob.Msg{Kind: oob.Spawn, From: int32(r), To: oob.Head, A: oob.SpawnRuns, B: 8}
			w.put(m.From, m.To, m)
			x.drv = driver{closed: true, settled: true}
			if x.coming == there && x.m.State() != ckpt.Ready {
				w.violate("rank %d was captured when it was %v", r, x.m.State())
			}
			x.reopens(inc)
		}
	}
}

// members tells the agents of how many ranks they add up what these say.
func (w *world) members() {
	members := make([]int, max(w.plan.agents, len(w.head.nodes)))
	for r := range w.np {
		members[w.agentOf(r)]++
	}
	w.agents = make([]*ckpt.DestSum, len(members))
	for i := range w.agents {
		w.agents[i] = ckpt.NewDestSum(members[i])
	}
}

// before makes sure that nothing is under way when another incarnation begins.
func (f *fabric) before() {
	if c := f.busy(-1); c != nil {
		f.w.violate("another incarnation begins with something in flight: %v", c)
	}
}

// standsIn reports whether an agent has processes beside those of its ranks.
func (n *node) standsIn() bool {
	return slices.ContainsFunc(n.w.shades, func(s *shade) bool { return s.n == n && s.alive })
}

// blames reports whether the end of an old process may be the cause of the job's: its move was being reverted.
func (h *head) blames(rank int) bool { return rank >= 0 && h.orphans[rank] && h.reverting }

func (m mishap) String() string { return fmt.Sprint(uint8(m)) }

// switched reports whether the present incarnation has begun within a life.
func (w *world) switched() bool { v := w.head.voyage; return v != nil && v.away }
