package joblife

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// Config tells the machine about its job.
type Config struct {
	Size      int   // ranks
	Restarts  int   // how often a job that has lost a rank or an agent may begin again
	Built     bool  // the program exists; otherwise EvProgram says when
	Heartbeat int64 // milliseconds between two EvTick, for messages
	Stopped   int   // exit status of a job that was checkpointed and stopped

	// Ckpt configures the checkpoint machine of each life. Size and Incarnation are
	// filled in.
	Ckpt ckpt.HeadConfig
	// Points says that checkpoints are wanted every so many Points, which ranks must understand.
	Points bool

	// CutMillis is how long nothing may pass between two nodes that both answer before one is left
	// out; 0: 15 s.
	CutMillis int64

	// AskFrom is the number of bytes of addresses above which ranks ask for them; 0: wireup.WholeBytes; -1: always.
	AskFrom int

	// GraceMillis is how long ranks have after a signal that tells them to end; 0: 8 s.
	GraceMillis int64

	LikelyMillis, ConsequenceMillis int64 // how long a consequence waits for its cause; 0: 200, 1000
}

// Job is the machine. It is not safe for concurrent use.
type Job struct {
	cfg      Config
	program  bool // it is there
	life     *life
	lives    []*life
	restarts int
	state    string
	end      *Verdict       // the user's or the clock's reason to end the job; nil: none
	told     syscall.Signal // the signal that told the ranks to end: no restart; 0: none
	order    *Verdict       // the first order to end; nil: none was given
	patience uint64         // the timer of it
	obeyed   bool           // a final order was given: the storage is not waited for
	choosing *Verdict       // why a restart is about to begin; nil: none is
	verdict  *Verdict       // given; nil: not yet
	cleaned  bool
	ended    bool
	works    int // operations of the storage in progress
	pauses   pauses
	retreat  retreat

	timers map[uint64]func()
	timer  uint64 // the newest
	out    []Action
}

// New returns the machine of a job that has not begun.
func New(cfg Config) *Job {
	if cfg.LikelyMillis == 0 {
		cfg.LikelyMillis = 200
	}
	if cfg.ConsequenceMillis == 0 {
		cfg.ConsequenceMillis = 1000
	}
	if cfg.GraceMillis == 0 {
		cfg.GraceMillis = graceMillis
	}
	if cfg.CutMillis == 0 {
		cfg.CutMillis = cutMillis
	}
	return &Job{cfg: cfg, program: cfg.Built, state: "starting", timers: map[uint64]func(){}}
}

// Step feeds one event and returns what is to be done, in this order. The result
// belongs to the caller.
func (j *Job) Step(ev Event) []Action {
	j.out = nil
	if !j.ended {
		j.step(&ev)
	}
	return j.out
}

func (j *Job) step(ev *Event) {
	switch ev.Type {
	case EvStart:
		if j.life == nil {
			j.begin(0)
		}
	case EvGone: // of any life
		j.gone(ev.Life, ev.Agent)
	case EvTimeout:
		if f := j.timers[ev.Timer]; f != nil {
			delete(j.timers, ev.Timer)
			f()
		}
	case EvStoring:
		j.works = ev.Works
		j.finished()
		j.goOn()
	case EvChosen:
		j.chosen(ev)
	case EvCleaned:
		j.clean()
	case EvRequest:
		j.request(ev.Request)
	case EvFinish, EvInterrupt, EvStop, EvSignal, EvProgram:
		switch {
		case j.life == nil:
		case j.verdict == nil:
			j.fromOutside(ev)
			j.unpark()
		case ev.Type == EvInterrupt || ev.Type == EvStop:
			j.killAgents()
		}
	case EvHold, EvRelease, EvSuspend, EvResume:
		j.pause(ev)
	case EvMove:
		j.migrate(ev)
	default:
		if j.life != nil && ev.Life == j.life.n && (!j.life.closing || ev.Type == EvBegun) {
			j.life.take(ev)
		}
	}
}

// fromOutside takes events of users, signals and the builder of the program.
func (j *Job) fromOutside(ev *Event) {
	l := j.life
	switch ev.Type {
	case EvFinish:
		if j.ordered(ev.Verdict) {
			j.finish(ev.Verdict, ev.Polite)
		}
	case EvInterrupt:
		j.interrupt()
	case EvStop:
		j.terminate(ev.Signal, ev.Verdict)
	case EvSignal:
		if ev.Signal == syscall.SIGCONT && j.pauses.state != runs {
			return // gorun resume lets them go on
		}
		l.signalInMove(ev.Signal)
	case EvProgram:
		if ev.Verdict != nil {
			l.end(ev.Verdict, false)
			return
		}
		j.program = true
		l.order()
	}
}

// pause takes the orders of users that keep checkpoints off or stop the ranks.
func (j *Job) pause(ev *Event) {
	switch {
	case j.life == nil || j.verdict != nil || j.end != nil:
		j.refuseHold(ev.ID, "the job is ending")
	case ev.Type == EvSuspend:
		j.suspend(ev.ID)
	case ev.Type == EvResume:
		j.resume(ev.ID)
	default:
		j.hold(ev)
	}
}

func (j *Job) act(a Action) { j.out = append(j.out, a) }

func (j *Job) say(format string, args ...any) {
	j.act(Action{Type: ActSay, Text: fmt.Sprintf(format, args...)})
}

func (j *Job) detail(format string, args ...any) {
	j.act(Action{Type: ActSay, Detail: true, Text: fmt.Sprintf(format, args...)})
}

// after calls f in so many milliseconds, unless stop is called before.
func (j *Job) after(millis int64, f func()) (id uint64) {
	j.timer++
	j.timers[j.timer] = f
	j.act(Action{Type: ActTimer, Timer: j.timer, Millis: millis})
	return j.timer
}

func (j *Job) stop(id uint64) {
	if j.timers[id] != nil {
		delete(j.timers, id)
		j.act(Action{Type: ActStopTimer, Timer: id})
	}
}

// begin begins a life.
func (j *Job) begin(snapshot int) {
	j.life = newLife(j, len(j.lives)+1)
	j.life.from = snapshot
	j.lives = append(j.lives, j.life)
	j.act(Action{Type: ActBegin, Life: j.life.n, Snapshot: snapshot})
}

// finished ends the present life when no process of it runs and no commit is being written. Then it
// decides what follows.
func (j *Job) finished() {
	l := j.life
	if l == nil || l.closing || !l.begun || j.works > 0 && !j.obeyed || !l.over() {
		return
	}
	l.close()
	v := l.ending
	if v == nil {
		v, _ = l.causes.verdict()
	}
	switch {
	case j.end != nil:
		j.judge(j.end)
	case v == nil:
		j.judge(&Verdict{Rank: -1})
	case v.Died && j.told == 0 && j.RestartsLeft():
		if !j.park(v) {
			j.again(v)
		}
	default:
		j.judge(j.asTold(v))
	}
}

// again begins the job from its beginning.
func (j *Job) again(v *Verdict) {
	j.restarts++
	j.state = "restarting"
	j.choosing = v
	j.retreat.ended(j.life.from, v)
	j.act(Action{Type: ActChoose, Life: j.life.n, Verdict: *v, Left: slices.Clone(j.retreat.left)})
}

// asTold corrects the verdict about ranks that ended by a forwarded signal: it says that gorun was
// sent the signal.
func (j *Job) asTold(v *Verdict) *Verdict {
	if j.told == 0 || v.Code != SignalBase+int(j.told) {
		return v
	}
	told := *v
	told.Text = fmt.Sprintf("ended by %s, which gorun was sent and has passed on to the ranks", SignalName(j.told))
	return &told
}

// chosen begins the next life, unless the job was ended meanwhile.
func (j *Job) chosen(ev *Event) {
	v := j.choosing
	if v == nil {
		return
	}
	j.choosing = nil
	switch {
	case j.end != nil:
		j.judge(j.end)
	case j.told != 0 || ev.Refused:
		j.judge(j.asTold(v))
	default:
		where := "from the start"
		if ev.Snapshot > 0 {
			where = fmt.Sprintf("from snapshot %d", ev.Snapshot)
		}
		if from := j.life.from; ev.Snapshot > 0 && ev.Snapshot < from && slices.Contains(j.retreat.left, from) {
			where += fmt.Sprintf(", as %d restarts from snapshot %d have ended alike", mostAlike, from)
		}
		j.say("%s; restarting %s (%d of at most %d)", v.Text, where, j.restarts, j.cfg.Restarts)
		j.begin(ev.Snapshot)
	}
}

// judge gives the verdict.
func (j *Job) judge(v *Verdict) {
	if j.verdict != nil {
		return
	}
	j.verdict = v
	j.stop(j.patience)
	j.endSuspension("the job is ending")
	j.act(Action{Type: ActVerdict, Verdict: *v})
}

// clean lets all agents go. Until now each was ready to remove what the job has left, in case this process
// died.
func (j *Job) clean() {
	if j.verdict == nil || j.cleaned {
		return
	}
	j.cleaned = true
	for _, l := range j.lives {
		l.dismiss()
	}
	j.leave()
}

// gone takes the end of an agent of any life.
func (j *Job) gone(life, agent int) {
	if life < 1 || life > len(j.lives) {
		return
	}
	l := j.lives[life-1]
	if agent < 0 || agent >= len(l.links) {
		return
	}
	l.gone(l.links[agent])
	j.finished()
	j.leave()
}

// leave reports the job's end when no agent is left.
func (j *Job) leave() {
	if !j.cleaned || j.ended {
		return
	}
	for _, l := range j.lives {
		for _, k := range l.links {
			if !k.gone {
				return
			}
		}
	}
	j.ended = true
	j.act(Action{Type: ActEnd})
}

// State is one word for the job's state: building, starting, running, ending or restarting.
func (j *Job) State() string { return j.state }

// Restarts returns how often the job has begun again.
func (j *Job) Restarts() int { return j.restarts }

// RestartsLeft reports whether a restart would follow a death. If so, ranks are told at their start to stand
// still when they lose a peer.
func (j *Job) RestartsLeft() bool { return j.restarts < j.cfg.Restarts }

// Obeyed reports whether a final order to end the job was given: then the storage is not waited for
// any more.
func (j *Job) Obeyed() bool { return j.obeyed }

// Life is the number of the present life, 0 before the first.
func (j *Job) Life() int { return len(j.lives) }

// Owns reports whether a rank of the present life belongs to an agent. An agent speaks for its own ranks alone.
func (j *Job) Owns(life, agent, rank int) bool {
	l := j.life
	return l != nil && l.n == life && agent >= 0 && agent < len(l.links) && l.of(l.links[agent], rank)
}

// AllSpawned reports whether all ranks of the present life were started.
func (j *Job) AllSpawned() bool { return j.life != nil && j.life.count[Spawned] == j.cfg.Size }

// Steady reports whether no cause is known that ends the present life.
func (j *Job) Steady() bool {
	l := j.life
	if l == nil || j.end != nil || j.verdict != nil || j.obeyed || l.ending != nil || l.closing || l.leaving {
		return false
	}
	v, _ := l.causes.verdict()
	return v == nil
}

// Busy reports whether a checkpoint is being taken.
func (j *Job) Busy() bool { return j.life != nil && j.life.ckpt != nil && j.life.ckpt.Busy() }

// Idle reports whether a checkpoint would begin at once.
func (j *Job) Idle() bool {
	l := j.life
	return l != nil && l.ending == nil && !l.closing && !l.leaving && l.count[Up] == j.cfg.Size && !l.ckpt.Busy() && l.ckpt.Held() == ""
}

// Rank describes a rank.
type Rank struct {
	Phase Phase
	PID   int // on Host; 0: not known yet
	Agent int
	Host  string
	Looks bool // it understands oob.Look
	Moves bool // it understands oob.StartConfig.Moves
}

// Rank returns the description of a rank in the present life.
func (j *Job) Rank(rank int) Rank {
	r := &j.life.ranks[rank]
	v := Rank{Phase: r.phase, PID: r.pid, Looks: r.looks, Moves: r.moves}
	if r.link != nil {
		v.Agent, v.Host = r.link.index, r.link.Host
	}
	return v
}

// Transports returns which transport carries the messages between which ranks, or nil before that
// is known.
func (j *Job) Transports() *wireup.Summary { return j.life.routes }

// goodbye is the last frame to an agent. It says that this process has removed what the job has left.
func goodbye() oob.Msg { return oob.Msg{Kind: oob.KillAll, B: oob.Goodbye} }
