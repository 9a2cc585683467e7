package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// The agent's part of a native checkpoint. It images a rank that stands in Ready, and reports to
// the head what the rank itself would report of a portable image.
//
//	Capture -> the stream to the rank is held between two frames, the rank is
//	           captured -> Captured
//	Open    -> passed on; now the disk and the processors are for writing
//	           -> Progress ... Written, or Failed
//	Revert, or the rank's death: everything is given up
//
// With Ahead there is no gate, and no Captured and Open: the rank runs, and may be in the middle of anything.
//
// With Hold the job is to end with its snapshot. The rank is then not copied: it stands from the
// capture on, since all that it did would be done again after the restart. It dies standing when the
// job ends, and goes on if the attempt is given up.
//
// In between the agent answers Ask.

// images is what an agent needs to image its ranks.
type images struct {
	mu      sync.Mutex
	tracers map[string]whole.Tracer // by back-end
	disk    turns
	memory  memory
}

// tracer returns the tracer of a back-end. It is made when it is first needed: a job without whole
// images has none.
func (i *images) tracer(name string) (whole.Tracer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if t := i.tracers[name]; t != nil {
		return t, nil
	}
	by, err := whole.Find(name)
	if err != nil {
		return nil, err
	}
	t, err := by.NewTracer(max(2, runtime.GOMAXPROCS(0)))
	if err == nil {
		i.tracers[name] = t
	}
	return t, err
}

// imaging is what is known of the images of one rank.
type imaging struct {
	mu        sync.Mutex
	dead      bool  // the rank has ended
	now       *shot // the newest; nil before the first
	target    whole.Target
	unfit     error        // why there is no target
	committed atomic.Int64 // the newest snapshot that is
}

// shot is one image in the making.
type shot struct {
	a     *agent
	r     *rankProc
	order oob.Msg // the Capture
	cfg   oob.CaptureConfig
	last  *shot // the one before

	cancel, open         chan struct{}
	cancelOnce, openOnce sync.Once
	free                 chan struct{} // closed when the rank is not traced any more
	done                 chan struct{} // closed when nothing of it is left but the file

	doing   atomic.Pointer[string]
	written atomic.Uint64
	copy    *budgeted
	take    *take           // of its devices; nil: it has none
	parts   []image.Part    // that these add to the image
	input   *oob.InputState // of the rank that has standard input; nil: another, or not known
}

// onImage takes a frame that concerns a rank's image. It reports false if the rank gets the frame,
// too. The agent is locked.
func (a *agent) onImage(r *rankProc, m *oob.Msg) bool {
	switch m.Kind {
	case oob.Capture:
		if cfg, ok := selfConfig(m); ok {
			a.capturesItself(r, m, cfg)
			return true
		}
		var cfg oob.CaptureConfig
		if err := json.Unmarshal(m.Data, &cfg); err != nil || cfg.Mode != oob.ModeNative {
			return false
		}
		a.shoot(r, m, cfg)
		return true
	case oob.Open, oob.Revert, oob.Ask:
		s := r.imaging.of(m)
		if s == nil {
			if m.Kind == oob.Ask && a.stoppedRank(r, m) {
				return true
			}
			return false
		}
		switch m.Kind {
		case oob.Open:
			s.openOnce.Do(func() { close(s.open) })
		case oob.Revert:
			s.giveUp()
		case oob.Ask:
			s.say(oob.Msg{Kind: oob.Where, A: uint64(ckpt.Ready), Data: []byte(s.where())})
			return true
		}
	case oob.Commit:
		r.imaging.committed.Store(int64(m.A))
	}
	return false
}

// stoppedRank answers for a rank that was stopped by a signal: the rank cannot say itself what
// holds up a checkpoint.
func (a *agent) stoppedRank(r *rankProc, m *oob.Msg) bool {
	if !r.isStopped() {
		return false
	}
	a.head.Send(oob.Msg{
		Kind: oob.Where, From: int32(r.rank), To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt,
		Data: []byte(r.stoppedText()),
	})
	return true
}

// isStopped reports whether the rank's process was stopped by a signal.
func (r *rankProc) isStopped() bool {
	st, ok := procfs.ReadStat(r.pid)
	return ok && st.State == 'T'
}

func (r *rankProc) stoppedText() string {
	return fmt.Sprintf("is stopped (process %d; kill -CONT %d lets it go on)", r.pid, r.pid)
}

// of returns the image being made in the attempt of a frame, nil if none is.
func (i *imaging) of(m *oob.Msg) *shot {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.now
	if s == nil || s.order.Attempt != m.Attempt || s.order.Incarnation != m.Incarnation {
		return nil
	}
	select {
	case <-s.done:
		return nil
	default:
		return s
	}
}

// giveUp ends what is under way without a result.
func (i *imaging) giveUp() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now != nil {
		i.now.giveUp()
	}
}

// endImaging is called when the rank has died. It returns when only the agent waits for it.
func (a *agent) endImaging(r *rankProc) {
	i := &r.imaging
	i.mu.Lock()
	i.dead = true
	s := i.now
	i.mu.Unlock()
	if s != nil {
		s.giveUp()
		<-s.free
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.target != nil {
		i.target.Close()
		i.target = nil
	}
}

// shoot begins an image.
func (a *agent) shoot(r *rankProc, m *oob.Msg, cfg oob.CaptureConfig) {
	i := &r.imaging
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return // its Exit is under way
	}
	s := &shot{
		a: a, r: r, order: *m, cfg: cfg, last: i.now,
		cancel: make(chan struct{}), open: make(chan struct{}), free: make(chan struct{}), done: make(chan struct{}),
	}
	s.is("waits to be copied by its agent")
	if cfg.Ahead {
		close(s.open) // no gate is closed
	}
	if i.now != nil && i.now.cfg.Ahead {
		i.now.giveUp() // it is useless now, unless it is done
	}
	i.now = s
	a.imagings.Add(1)
	go s.run()
}

func (s *shot) giveUp() { s.cancelOnce.Do(func() { close(s.cancel) }) }

func (s *shot) given() bool {
	select {
	case <-s.cancel:
		return true
	default:
		return false
	}
}

func (s *shot) is(doing string) { s.doing.Store(&doing) }

// where is the answer to Ask.
func (s *shot) where() string {
	if n := s.written.Load(); n > 0 {
		return fmt.Sprintf("%s: %d of at most %d MB", *s.doing.Load(), n>>20, s.copy.Bytes()>>20)
	}
	return *s.doing.Load()
}

// say speaks to the head for the rank, in the attempt of the image.
func (s *shot) say(m oob.Msg) {
	m.From, m.To = int32(s.r.rank), oob.Head
	m.Incarnation, m.Attempt = s.order.Incarnation, s.order.Attempt
	s.a.head.Send(m)
}

// run makes the image. A failure after the rank has died, or the attempt is over, is not reported.
func (s *shot) run() {
	defer s.a.imagings.Done()
	defer close(s.done)
	if s.last != nil {
		<-s.last.done
		s.last = nil
	}
	err := s.captureAll()
	defer s.take.close()
	traced := err == nil && s.copy.PID() == 0
	if !traced {
		close(s.free)
	}
	if err == nil {
		err = s.image()
	}
	if traced {
		close(s.free)
	}
	if err != nil && !s.given() && !errors.Is(err, whole.ErrDied) {
		m := oob.Msg{Kind: oob.Failed, Data: []byte(s.a.withRemedy(err).Error())}
		if s.cfg.Ahead {
			m.A = oob.FailedAhead
		}
		s.say(m)
	}
}

// captureAll captures the rank, and its devices at the same time.
func (s *shot) captureAll() (err error) {
	if s.cfg.Ahead { // the devices go with the move itself
		return s.capture()
	}
	s.is("waits for its devices")
	if s.take, err = s.r.devices.takeFrom(&s.order, &s.cfg, s.cancel); err == nil {
		err = s.capture()
	}
	if err != nil || s.take == nil {
		return err
	}
	s.is("waits for the content of its devices")
	if err = s.take.wait(s.take.done, s.cancel); err == nil {
		s.parts, s.copy.more, err = s.r.devices.parts(s.take)
	}
	if err != nil {
		err = errors.Join(err, s.copy.Release())
	}
	return err
}

// holdLimit is how long a frame may take to be read by a rank that is ready.
const holdLimit = 10 * time.Second

// capture captures the rank at a moment when what it has read of its stream, and what waits there,
// are whole frames together.
func (s *shot) capture() error {
	s.is("waits for a frame to be read")
	defer s.r.down.Release()
	select {
	case <-s.r.down.Hold():
	case <-s.cancel:
		return image.ErrCanceled
	case <-time.After(holdLimit):
		return fmt.Errorf("it has not read within %v what its agent had begun to send", holdLimit)
	}
	target, err := s.r.imaging.attached()
	if err != nil {
		return err
	}
	opt := whole.CaptureOptions{Seq: s.cfg.Seq, Base: s.cfg.Base, Track: s.a.order.Track && !s.cfg.Hold || s.cfg.Ahead, CPUs: s.a.cpus[s.r.rank]}
	need, short := uint64(0), error(nil)
	if !s.cfg.Hold {
		need = residentBytes(s.r.pid)
		short = s.a.images.memory.promise(need)
	}
	if s.cfg.Ahead && short != nil {
		return short // the program must not stop for this
	}
	opt.NoFork = s.cfg.Hold || short != nil
	if done := int(s.r.imaging.committed.Load()); done > 0 {
		target.Committed(done)
	}
	if s.cfg.Move && s.cfg.Base > 0 {
		target.Committed(s.cfg.Base) // it is where the rank goes
	}
	s.is("is being copied by its agent")
	in := s.r.in
	if in != nil {
		in.Flow.Lock()
		defer in.Flow.Unlock()
	}
	opt.Stands = func() {
		s.input = &oob.InputState{Taken: -1, First: -1}
		if in != nil {
			if taken := in.State(); taken != nil {
				s.input = taken
			}
		}
		s.input.Printed = s.r.printed()
	}
	s.a.expect()
	c, err := target.Capture(opt)
	s.a.born(func() {
		if err == nil && c.PID() > 0 {
			s.a.copies[c.PID()] = true
		}
	})
	if err != nil {
		if short == nil {
			s.a.images.memory.giveBack(need)
		}
		return err
	}
	s.copy = &budgeted{Copy: c, a: s.a, short: short, bytes: need, held: s.cfg.Hold}
	if s.cfg.Ahead && c.PID() == 0 {
		return errors.Join(errors.New(c.Note()), s.copy.Release())
	}
	return nil
}

// attach makes a target of a rank that was just started, while the streams that it was given are at
// hand. A failure is reported when the target is needed.
func (a *agent) attach(r *rankProc, p *pipes) {
	if a.order.Imager == "" {
		return
	}
	i := &r.imaging
	tracer, err := a.images.tracer(a.order.Imager)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		i.target, err = tracer.Attach(r.pid, r.rank, oobFD, [3]int{p.stdin, p.theirs[1], p.theirs[2]})
	}
	i.unfit = err
}

// attached returns the rank as a target.
func (i *imaging) attached() (whole.Target, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.dead:
		return nil, whole.ErrDied
	case i.target == nil && i.unfit == nil:
		return nil, errors.New("its agent was not told by which back-end it is to be imaged")
	}
	return i.target, i.unfit
}

// image has the image written, tells the head, and ends the copy.
func (s *shot) image() (err error) {
	if !s.cfg.Ahead {
		captured := oob.Msg{Kind: oob.Captured, A: s.copy.Bytes()}
		if s.input != nil {
			captured.Data = wire.JSON(s.input)
		}
		s.say(captured)
	}
	g := watchGrowth(s.r, s.copy.PID(), s.copy.bytes)
	defer func() {
		g.end()
		err = errors.Join(err, s.copy.Release())
	}()
	info, err := s.write()
	if err == nil && !s.cfg.Hold {
		// A rank that stood still until now goes on, and that is counted in the pause.
		g.end()
		err = s.copy.Release()
	}
	if err != nil {
		return err
	}
	info.Pause, info.Note = int64(s.copy.Pause()), cmp.Or(g.note(), s.copy.Note())
	if s.cfg.Move {
		if err := s.r.passOn(s.cancel); err != nil {
			return err
		}
	}
	s.say(oob.Msg{Kind: oob.Written, A: uint64(info.Size), Data: wire.JSON(info)})
	if s.cfg.Hold {
		s.stand()
	}
	return nil
}

// stand keeps the rank where it is until the attempt is given up, the job is ended, or the rank was
// killed. Its death is not reported to those that wait for it before it is let go.
func (s *shot) stand() {
	s.is("stands until the snapshot is committed")
	if s.cfg.Move {
		s.is("stands until it is up elsewhere")
	}
	t := time.NewTicker(standPoll)
	defer t.Stop()
	for {
		select {
		case <-s.cancel:
			return
		case <-t.C:
			if st, ok := procfs.ReadStat(s.r.pid); !ok || st.Ended() {
				return
			}
		}
	}
}

// standPoll is how often a rank that stands is looked at.
const standPoll = 50 * time.Millisecond

// write writes the image when it is this rank's turn.
func (s *shot) write() (info oob.ImageInfo, err error) {
	s.is("waits for its image to be written")
	if !s.cfg.Hold {
		select {
		case <-s.open:
		case <-s.cancel:
			return info, image.ErrCanceled
		}
	}
	share := shareOf(s.copy.Bytes())
	if !s.a.images.disk.take(share, s.cancel) {
		return info, image.ErrCanceled
	}
	s.is("has its image written by its agent")
	ctx, cancel := s.context()
	defer cancel()
	to, written, err := s.a.writeTo(ctx, &s.cfg, s.copy.Bytes())
	var sum image.Summary
	if err == nil {
		sum, err = s.copy.Write(to, s.meta(), image.Options{
			Codec: image.Codec(s.cfg.Codec), NoFolder: true, Passing: s.cfg.Move || s.cfg.Ahead, Progress: s.progress(), Cancel: s.cancel, Also: s.parts,
		})
	}
	if err == nil {
		err = written()
	}
	s.a.images.disk.give(share)
	if err != nil {
		return info, err
	}
	return oob.ImageInfo{
		File: path.Base(string(s.cfg.Path)), Size: sum.Size, Digest: sum.Digest, Codec: string(sum.Codec),
		Base: s.copy.Base(), Raw: sum.Raw, CPU: int64(sum.CPU),
	}, nil
}

// context ends when the image is given up.
func (s *shot) context() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-s.cancel:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s *shot) progress() func(uint64) {
	var last time.Time
	return func(n uint64) {
		s.written.Store(n)
		if now := time.Now(); now.Sub(last) > 50*time.Millisecond {
			last = now
			s.say(oob.Msg{Kind: oob.Progress, A: n})
		}
	}
}

func (s *shot) meta() image.Meta {
	m := image.LocalMeta()
	start := s.a.startOf(s.r.rank)
	m.Job, m.Incarnation, m.Rank, m.Size = start.Job, wire.ID(start.Incarnation), start.Rank, start.Size
	m.Seq, m.Backend, m.Host = s.cfg.Seq, s.a.order.Imager, wire.Hostname()
	m.Go = "" // of the program: the back-end knows
	if len(s.a.order.Args) > 0 {
		m.Program = s.a.order.Args[0]
	}
	return m
}

// budgeted is a copy that returns the memory set aside for it, once.
type budgeted struct {
	whole.Copy
	a     *agent
	bytes uint64
	more  uint64 // bytes of its devices
	short error  // why there is no copy although there should be; nil: there is, or should be none
	held  bool   // the rank stands on purpose, which is not reported
	once  sync.Once
	err   error
}

func (b *budgeted) Release() error {
	b.once.Do(func() {
		b.err = b.Copy.Release()
		if b.short == nil {
			b.a.images.memory.giveBack(b.bytes)
		}
		b.a.mu.Lock()
		delete(b.a.copies, b.PID())
		b.a.mu.Unlock()
	})
	return b.err
}

func (b *budgeted) Note() string {
	switch {
	case b.held && b.PID() == 0:
		return ""
	case b.short == nil:
		return b.Copy.Note()
	}
	return fmt.Sprintf("it stood still until its image was written: %v", b.short)
}

// Bytes bounds the back-end's figure, which may be a guess.
func (b *budgeted) Bytes() uint64 { return min(b.Copy.Bytes()+b.more, math.MaxInt64) }
