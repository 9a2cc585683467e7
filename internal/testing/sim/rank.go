package sim

import (
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// rank is one simulated process: the program's goroutines, the shipped engine
// and protocol machine, and the driver between them.
type rank struct {
	w     *world
	id    int
	alive bool
	up    bool // in the job: Init has returned
	left  bool // has passed Finalize

	stands   bool // has lost a peer, and waits for the restart
	made     bool // the head knows that it is restored
	reaped   bool // its agent has told of its end
	reviving bool // come back from an image, not yet going on

	inc    uint64 // its incarnation
	coming coming // on its way into another one: see move.go

	e   *engine.Engine
	mod *module
	m   *ckpt.Rank

	app    app
	caller caller
	points points
	holder holder
	drv    driver
	agent  imager // its agent
}

// app is the program's state. What an image of the portable back-end holds of
// it is in saved.
type app struct {
	saved
	stage    stage
	threads  []thread
	teams    []member
	sum      uint64 // of the digests received in this round
	released bool   // Init has returned
	broken   error  // a call failed because a peer died: the program stops there
	history  map[uint64][]match
	posts    uint64
}

// saved is the registered state: where the program goes on, and its result so far.
type saved struct {
	round int
	acc   uint64
}

type stage uint8

const (
	starting  stage = iota
	prologue        // before the first Point
	atPoint         // wants to enter, or stands at, a Point
	running         // in a round
	finishing       // has entered Finalize
	gone
)

func (s stage) String() string {
	return [...]string{"starting", "in the prologue", "at a Point", "running", "in Finalize", "gone"}[s]
}

// points is the program's count of Points, and the order to stop at one.
type points struct {
	entered  uint64
	standing bool // entered, and not yet left
	armed    bool
	attempt  uint32
	target   uint64
	told     bool // the driver knows that we stand at the target
}

// thread is one goroutine of the program.
type thread struct {
	ops     []op
	next    int
	calling bool    // it is the rank's caller
	call    *call   // the one it is blocked in
	pending []*call // started, to be completed at the end of the round
	over    []*call // to be completed at the end of the next round
	found   bool    // a probe has found the message of ops[next]
	st      engine.Status
	mprobe  engine.Message
	window  bool // mutant: has passed the gate's check, and calls whatever happens now
}

// call is one operation under way.
type call struct {
	op   op
	req  engine.Request
	buf  []byte
	post uint64
}

// driver carries out what the protocol machine says, as internal/rank/job does.
type driver struct {
	inbox    []ckpt.RankEvent
	attempt  uint32
	closed   bool
	flushing bool
	draining bool
	settled  bool
	copying  int64 // step at which the copy stands, 0: none is made
	copied   *image
	write    *write
}

// write is an image on its way to storage.
type write struct {
	attempt uint32
	img     *image
	seq     int
	done    int
}

func newRank(w *world, id int) *rank {
	r := &rank{w: w, id: id, alive: true, inc: w.incarnation}
	r.mod = w.net.mods[id]
	r.e = engine.New(engine.Config{Rank: id, Size: w.np, Local: 1 << 20, Modules: r.mod.modules(), Manual: true})
	if _, err := r.mod.Start(rpi.Env{Rank: id, Size: w.np, Incarnation: w.incarnation, Sink: r.e.Sink(0)}); err != nil {
		w.violate("rank %d: module does not start: %v", id, err)
	}
	r.e.Start()
	r.m = ckpt.NewRank(id, w.np, w.incarnation, w.plan.sparse)
	r.app.history = make(map[uint64][]match)
	r.app.threads = make([]thread, w.plan.threads)
	r.app.teams = make([]member, len(w.prog.teams))
	return r
}

// init enters the job; the program begins when the head says that all have.
func (r *rank) init() {
	r.up = true
	r.greets()
	r.w.send(oob.Msg{Kind: oob.Up, From: int32(r.id), To: oob.Head, Incarnation: r.inc})
}

func (r *rank) greets() {
	r.w.send(oob.Msg{Kind: oob.Hello, From: int32(r.id), To: oob.Head, Incarnation: r.inc, A: oob.VersionMin, B: oob.VersionMax, Data: []byte("{}")})
}

// step does one small thing, chosen at random.
func (r *rank) step() {
	if r.w.breaks(boardSavedEarly) && r.w.rng.IntN(32) == 0 && !r.e.GateClosed() {
		r.mod.early = r.mod.plates.remember()
	}
	if r.agent.busy() && r.w.rng.IntN(3) == 0 {
		r.agent.turn(r)
		return
	}
	if !r.alive || r.left {
		return
	}
	if r.app.broken != nil && !r.stands && r.w.rng.IntN(16) == 0 {
		r.givesUp()
		return
	}
	if r.reviving {
		if r.w.rng.IntN(8) == 0 {
			r.revived()
		}
		return
	}
	if !r.up {
		if r.w.rng.IntN(8) == 0 {
			r.init()
		}
		return
	}
	if r.holds() && r.w.rng.IntN(24) == 0 {
		r.hold()
		return
	}
	switch r.w.rng.IntN(4) {
	case 0:
		r.drive()
	case 1:
		switch {
		case r.e.GateClosed():
			r.drive()
		case r.caller.where == nowhere && (!r.w.plan.alone || r.w.rng.IntN(16) == 0): // else who leads makes progress for all
			r.e.Progress()
		default:
			r.program()
		}
	default:
		r.program()
	}
}

// where says what the program is doing.
func (r *rank) where() string {
	s := r.app.stage.String()
	if r.app.broken != nil {
		s = r.app.broken.Error()
	}
	if r.points.standing {
		s = "standing at a Point"
	}
	for _, t := range r.app.threads {
		if t.call != nil {
			return s + ", in a call"
		}
	}
	return s
}
