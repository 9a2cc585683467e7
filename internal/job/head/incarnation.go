package head

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// incarnation is one life of a job: its agents, and the state that storage and restart need. Its
// methods run in the head's loop.
type incarnation struct {
	h          *head
	n          int    // counted from 1
	name       uint64 // its first incarnation, by which users know it
	id         uint64 // its newest: ranks may move
	secret     []byte
	from       *snapshot.Snapshot
	source     *storage.Source // what agents are told about from
	links      []*link
	giveUp     context.CancelFunc // ends the start of its agents; nil: they are started, or cannot be
	imager     string             // the back-end that can image the ranks as whole processes; "": none
	store      attempts
	lost       lost
	gate       gate
	beside     beside
	input      inputAt                   // where it begins
	fed        *link                     // gets standard input; nil: none does
	used       *oob.InputState           // of rank 0, which has ended; nil: it has not
	took       *oob.InputState           // of the newest capture of rank 0; nil: not known
	bound      map[int]string            // CPUs of ranks that are bound
	offload    map[int][]offload.Session // offload processes of ranks that have some
	common     common                    // files that ranks share
	moving     *moving                   // ranks that move; nil: none do
	printed    map[int][]int64           // by rank, what it had printed in this life at its newest capture
	moves      bool                      // ranks have moved: their output is counted from the move on
	readable   atomic.Pointer[[]string]  // the nodes of a move, for goroutines that answer agents beside the loop; nil: none
	lived      bool                      // rank 0 has moved: its process has lived before
	readBefore int64                     // what it had read of standard input by then
}

func newIncarnation(h *head, n int, from *snapshot.Snapshot) (*incarnation, error) {
	inc := &incarnation{h: h, n: n, from: from, source: h.storage.Source(from), id: h.firstID, bound: map[int]string{}, offload: map[int][]offload.Session{}, secret: make([]byte, 32)}
	h.firstID = 0
	if _, err := rand.Read(inc.secret); err != nil {
		return inc, fmt.Errorf("random numbers: %w", err)
	}
	var err error
	if inc.id == 0 {
		inc.id, err = newIncarnationID()
	}
	inc.name = inc.id
	return inc, err
}

func newIncarnationID() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("random numbers: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// order tells every agent to start its ranks.
func (inc *incarnation) order() {
	nodes := inc.nodes()
	for _, l := range inc.links {
		l.out.Send(oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(l.index), Data: wire.JSON(inc.orderFor(l, nodes))})
	}
	inc.feed()
	inc.narrate(firstWord)
	inc.foreign()
}

// orderFor is the order to one agent to start its ranks.
func (inc *incarnation) orderFor(l *link, nodes []oob.Node) wire.Order {
	o := &inc.h.opt
	ord := inc.custody(l)
	ord.SpawnConfig = oob.SpawnConfig{
		Program: rawstring.String(inc.program()), Args: append([]string{inc.h.prog.Argv0()}, o.Args...),
		Dir: rawstring.String(o.Dir), Env: o.Env, Start: map[int]oob.StartConfig{},
	}
	if !l.own {
		ord.Program, ord.Env = rawstring.String(l.program), wire.EnvForOthers(o.Env, o.KeepEnv)
	}
	ord.Host = l.agent.Address()
	ord.Stdin = slices.Contains(l.ranks, 0) && inc.h.stdin != nil
	ord.Lines = o.CR != "" && o.Mode() != oob.ModeNative && inc.h.job.RestartsLeft()
	ord.Interactive = o.OutputDir == "" && (isTerminal(o.Stdout) || isTerminal(o.Stderr))
	ord.Nodes = nodes
	local, crowded, wide := inc.local(l), inc.crowded(), inc.wide()
	for _, rank := range l.ranks {
		ord.Ranks = append(ord.Ranks, rank)
		start := inc.startConfig(rank)
		start.Local, start.Crowded, start.Wide = local, crowded, wide
		ord.Start[rank] = start
	}
	ord.Stores = inc.source.Stores(l.agent.Host())
	if inc.resizes() {
		ord.Shelf = inc.source.Shelf()
	} else {
		ord.Images = inc.source.Images(l.ranks)
	}
	ord.Bind = inc.bindRule(l)
	ord.Sharing = o.Sharing
	if first := slices.IndexFunc(inc.links, func(k *link) bool { return k.host == l.host && len(k.ranks) > 0 }); first == l.index {
		ord.MigrateOn = o.MigrateOn
	}
	ord.Imager, ord.Track, ord.Files = inc.imager, o.FullEvery > 1, o.Files
	ord.Shared = inc.common.files
	if inc.wholeFrom() {
		ord.Devices = o.Devices
		if inc.n == 1 {
			ord.Held = o.Debug
		}
	}
	return ord
}

func (inc *incarnation) startConfig(rank int) oob.StartConfig {
	o := &inc.h.opt
	c := oob.StartConfig{
		Job: inc.h.id, Incarnation: inc.id, Rank: rank, Size: o.NP, Secret: inc.secret,
		RPI: o.RPI, CR: o.CR, SparseFrom: o.SparseFrom, Params: o.Params, Rescue: inc.h.job.RestartsLeft(), Holds: true, Devices: true,
		Input: rank == 0 && inc.h.stdin != nil && o.CR != "",
	}
	if o.CR != "" {
		c.Points = uint64(o.CkptPoints)
	}
	if inc.from != nil {
		c.Backend, c.Files = inc.from.Schema.Backend, string(o.Files)
	}
	if inc.resizes() {
		c.Of = inc.from.Schema.NP
	}
	return c
}

// resizes reports whether this life begins from the images of another number of ranks.
func (inc *incarnation) resizes() bool { return inc.from != nil && inc.from.Schema.NP != inc.h.opt.NP }

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// message takes a frame of an agent or, through it, of a rank. It passes on output, input, answers
// to questions and tails. All other frames are for the machine.
func (inc *incarnation) message(l *link, m *oob.Msg) {
	h := inc.h
	switch {
	case m.Kind == oob.Input && h.stdin != nil && inc == h.inc && l == inc.fed:
		h.stdin.Give(int(m.A))
		inc.usedInput(m)
	case m.Kind == oob.Written && h.storage.HasMemory() && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.wrote(m)
	case m.Kind == oob.AtPoint:
		inc.gate.atPoint(time.Duration(m.B))
	case m.Kind == oob.Captured && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.tookOutput(m)
		if m.From == 0 {
			inc.tookInput(m)
		}
	case m.Kind == oob.Output && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.output(l, m)
	case m.Kind == oob.Seen && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.seen(m)
	case m.Kind == oob.Bound && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.boundTo(m)
	case m.Kind == oob.Cut:
		if h.job.Owns(inc.n, l.index, int(m.From)) {
			inc.hasCut(int(m.From))
		}
		return
	case m.Kind == oob.Offload && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.offloads(m)
	case m.Kind == oob.Files:
		inc.files(l, m)
		return
	case m.Kind == oob.Ticket:
		inc.ticket(l, m)
		return
	case m.Kind == oob.Bring:
		inc.brought(l, m)
		return
	case m.Kind == oob.Meter:
		inc.metered(m)
		return
	case m.Kind == oob.Alarm:
		if inc == h.inc {
			inc.alarm(l, m)
		}
		return
	case m.Kind == oob.Tail && h.job.Owns(inc.n, l.index, int(m.From)):
		inc.tail(m)
	}
	h.feed(joblife.Event{Type: joblife.EvFrame, Life: inc.n, Agent: l.index, Msg: *m})
}

func (inc *incarnation) output(l *link, m *oob.Msg) {
	if m.A < 1 || m.A > 2 || len(m.Data) == 0 {
		return
	}
	inc.h.printed.count(m)
	inc.h.printer.Print(stdio.Piece{Rank: m.From, Stream: int(m.A), Data: m.Data, More: m.B == oob.LineGoesOn, Credit: func(n int) {
		l.out.Send(oob.Msg{Kind: oob.Output, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(n)})
	}})
}
