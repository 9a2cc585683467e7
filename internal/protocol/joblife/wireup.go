package joblife

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// The wire-up, from a rank's first frame to the message that all are up.

// greeted takes a rank's first frame: from here on it must finalize.
func (l *life) greeted(rank int, m *oob.Msg) {
	r := &l.ranks[rank]
	if r.phase >= Greeted {
		return
	}
	info, err := oob.CheckHello(m)
	if err != nil {
		l.misfit(Verdict{Code: Failed, Rank: rank, Text: fmt.Sprintf("rank %d: %v", rank, err)})
		return
	}
	if l.j.cfg.Points && m.B < oob.VersionPoints {
		l.misfit(Verdict{Code: Failed, Rank: rank, Text: fmt.Sprintf(
			"rank %d: its program was built with an older gorun, which does not know -ckpt-points: build it with this one, or use -ckpt-every", rank)})
		return
	}
	r.hello, r.looks, r.moves, r.hears = info, m.B >= oob.VersionLook, m.B >= oob.VersionMoves, m.B >= oob.VersionHealth
	if r.hello.Role == "" {
		r.hello.Role = "rank"
	}
	l.reach(rank, Greeted)
	if l.first < 0 {
		l.first = rank
	}
	switch first := &l.ranks[l.first]; {
	case first.hello.BigEndian != info.BigEndian:
		l.fail(Verdict{Code: Failed, Rank: rank, Text: fmt.Sprintf(
			"ranks of different byte order cannot run together: %s, %s; start all on machines of one byte order (a checkpoint of self can move a whole job from one to the other)",
			byteOrder(rank, r.hello), byteOrder(l.first, first.hello))})
	case l.unmet >= 0:
		l.fail(Verdict{Code: Failed, Rank: l.unmet, Died: true, Text: fmt.Sprintf(
			"rank %d ended without calling Init, which other ranks have called: every rank must, or none", l.unmet)})
	}
}

func byteOrder(rank int, h oob.HelloInfo) string {
	name := "little-endian"
	if h.BigEndian {
		name = "big-endian"
	}
	return fmt.Sprintf("rank %d is %s (%s)", rank, name, h.Arch)
}

// addressed takes a rank's addresses; package wireup describes the exchange.
func (l *life) addressed(rank int, m *oob.Msg) {
	done, err := l.wires.Address(rank, m)
	l.reach(rank, Addressed)
	if !done {
		l.wire(rank, nil, err)
		return
	}
	for _, k := range l.links {
		if !k.ended && !l.closing && len(k.Ranks) > 0 {
			peers := l.wires.Peers(k.Node)
			peers.Incarnation, peers.To = l.id, oob.AgentAddr(k.index)
			l.send(k, *peers)
		}
	}
}

// locate tells a rank where another is.
func (l *life) locate(rank int, m *oob.Msg) {
	reply, err := l.wires.Locate(m)
	if err != nil {
		l.fail(Verdict{Code: Failed, Rank: rank, Text: fmt.Sprintf("rank %d: %v", rank, err)})
		return
	}
	reply.Incarnation, reply.To = l.id, int32(rank)
	l.pass(*reply)
}

// reaches takes how far a rank's transports reach.
func (l *life) reaches(rank int, m *oob.Msg) {
	reply, done, err := l.wires.Reach(rank, m)
	l.back.moved = true
	if done {
		s := l.wires.Summary()
		l.routes = &s
		l.act(Action{Type: ActConnected})
	}
	l.wire(rank, reply, err)
}

// wire tells all ranks the outcome, if it is known.
func (l *life) wire(rank int, reply *oob.Msg, err error) {
	if err != nil {
		l.misfit(Verdict{Code: Failed, Rank: rank, Text: err.Error()})
	} else if reply != nil {
		reply.Incarnation = l.id
		l.everyone(*reply)
	}
}

// forgoes tells the user, once, that a parameter can no longer be heeded. Transports lists further
// ranks that find this out.
func (l *life) forgoes(rank int, m *oob.Msg) {
	notes, err := l.wires.Late(rank, m)
	if err != nil || len(notes) == 0 {
		return
	}
	s := *l.routes
	s.Notes = append(slices.Clip(s.Notes), notes...)
	l.routes = &s
	for _, note := range notes {
		l.act(Action{Type: ActSay, Text: "transport " + note, Detail: l.denied})
	}
	l.denied = true
}

// up notes that a rank is ready. Its Init returns when all are up.
func (l *life) up(rank int) {
	if l.ranks[rank].phase >= Up || l.reach(rank, Up) < len(l.ranks) {
		return
	}
	if l.switching() {
		l.moveUp()
		return
	}
	l.everyone(oob.Msg{Kind: oob.Running, Incarnation: l.id})
	l.act(Action{Type: ActUp})
	l.allUp()
}
