package engine

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/rank/shmcoll"
	"github.com/gorun-mpi/gorun/rpi"
)

// The part of package shmcoll that callers of an engine need.
type (
	Team     = shmcoll.Team
	Turn     = shmcoll.Turn
	Place    = shmcoll.Place
	Need     = shmcoll.Need
	Combiner = shmcoll.Combiner
	CutError = shmcoll.CutError
)

// See package shmcoll.
const (
	Everybody = shmcoll.Everybody
	FromOne   = shmcoll.FromOne
	ToOne     = shmcoll.ToOne

	PlaceSize = shmcoll.PlaceSize
)

// OpenTeam prepares a team of the members (world ranks, this one at place me) for a context. The
// caller tells the others the Place at. If ok is false, this rank has no free board or does not
// reach another member's, and there is nothing to close.
func (e *Engine) OpenTeam(ctx uint64, members []int, me int) (t *Team, at Place, ok bool) {
	e.enter()
	defer e.leave()
	if e.abort.Load() != nil {
		return nil, at, false
	}
	return e.teams.Open(e.boardsModule(), ctx, members, me)
}

// JoinTeam begins a team that all its members have opened. places are what OpenTeam told them, by
// place. An error names a member whose Place is impossible.
func (e *Engine) JoinTeam(t *Team, places []Place) error {
	e.enter()
	defer e.leave()
	return e.teams.Join(t, places)
}

// CloseTeam gives the team up, joined or not: the rank takes no further turn of it. Its board is
// used again once all members have given the team up.
func (e *Engine) CloseTeam(t *Team) {
	e.enter()
	defer e.leave()
	e.teams.Close(t)
}

// boardsModule returns the module whose boards teams use.
func (e *Engine) boardsModule() shared.Boards {
	for _, m := range e.modules {
		if b, ok := m.(shared.Boards); ok {
			return b
		}
	}
	return nil
}

// AtPoint is Pending for a rank whose program agrees to be saved here. It waits until this rank's
// lines have left, which is soon, as their receivers live. Before that a member may not know how far
// this rank is. A cut that goes through no turn would then look to it like one that does (CutError).
func (e *Engine) AtPoint() []string {
	for e.linesLeft() && e.abort.Load() == nil {
		if !e.Progress() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return e.Pending()
}

func (e *Engine) linesLeft() bool {
	e.enter()
	defer e.leave()
	return e.teams.LinesLeft()
}

// failTeams fails the turns that cannot end without the peer.
func (e *Engine) failTeams(pr *peer) {
	e.teams.Fail(pr.rank)
	for i := 0; i < len(e.turns); {
		if t := e.turns[i].t; t.Has(pr.rank) && t.Advance() {
			e.endTurn(t)
			continue
		}
		i++
	}
}

// poisonTeam fails the turn of the team of a context.
func (e *Engine) poisonTeam(ctx uint64, err error) {
	if t := e.teams.Poison(ctx, err); t != nil {
		e.endTurn(t)
	}
}

// host is the engine as its teams see it.
type host struct{ e *Engine }

func (h host) Failed(rank int) error { return h.e.peers[rank].failed }

func (h host) Spoilt(rank int, why error) error { return peerFailed(rank, why) }

func (h host) SharesCPU(rank int) bool { return h.e.pace.SharesWith(rank) }

func (h host) Board(module shared.Boards, rank, i int) []byte {
	e := h.e
	if module == nil || uint(rank) >= uint(e.size) || rank == e.rank {
		return nil
	}
	pr := &e.peers[rank]
	if b, _ := pr.mod.(shared.Boards); b != module || pr.failed != nil {
		return nil
	}
	return module.PeerBoard(rank, i)
}

func (h host) On(ctx uint64) string { return h.e.on(ctx) }

func (h host) Enlist(rank int) { h.e.enlist(&h.e.peers[rank]) }

func (h host) Offer(rank int, f *rpi.Header, payload []byte) bool {
	return h.e.offer(&h.e.peers[rank], f, payload, 0, false) != rpi.Full
}

func (h host) Answer(rank int, f rpi.Header) {
	h.e.respond(&h.e.peers[rank], reply{kind: f.Kind, flags: f.Flags, ctx: f.Ctx, req: f.Req})
}
