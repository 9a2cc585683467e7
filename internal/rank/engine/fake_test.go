package engine_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// fakeNet is a network in one goroutine whose modules can do all that the
// interface allows: refuse frames (window), keep payloads until they are
// delivered (hold), deliver a frame in two turns (split) and write into published
// buffers (direct). It is also the shortest example of a module.
type fakeNet struct {
	t       testing.TB
	modules []*fake
	window  int  // frames on their way from one rank to another before Full; 0: no limit
	hold    bool // Held instead of Taken for frames with payload
	split   bool
	direct  bool // modules accept Publish
	dual    bool // and are DirectReaders
	blind   int  // direct reads that succeed before one fails; < 0: all
	reads   int  // direct reads done
	fragile int  // direct writes that succeed before one fails; < 0: all
	writes  int  // direct writes done
	lost    func(from, to int, h *rpi.Header) bool
}

func newFakeNet(t testing.TB, n int) *fakeNet {
	f := &fakeNet{t: t, fragile: -1, blind: -1}
	for i := range n {
		f.modules = append(f.modules, &fake{
			net: f, rank: i,
			wire: make([][]*fakeFrame, n), starved: make([]bool, n), begun: make([]*begunFrame, n),
			published: make(map[uint64][]byte),
		})
	}
	return f
}

// engines returns one hand-driven engine for each module.
func (f *fakeNet) engines() []*engine.Engine {
	e := connect(f.t, f.asModules(), true)
	f.t.Cleanup(func() {
		for _, e := range e {
			if err := e.Close(); err != nil {
				f.t.Error(err)
			}
		}
	})
	return e
}

// asModules returns what the engines get.
func (f *fakeNet) asModules() []rpi.Module {
	modules := make([]rpi.Module, len(f.modules))
	for i, m := range f.modules {
		if modules[i] = m; f.dual {
			modules[i] = fakeReader{m}
		}
	}
	return modules
}

// fakeReader is a fake that is a rpi.DirectReader.
type fakeReader struct{ *fake }

func (m fakeReader) DirectMin() int { return 20_000 }

func (m fakeReader) Read(peer int, key, off uint64, dst []byte) bool {
	f := m.net
	if m.quiesced {
		f.t.Errorf("rank %d reads with the gate closed", m.rank)
	}
	buf := f.modules[peer].published[key]
	if buf == nil || f.blind == 0 {
		clear(dst)
		return false
	}
	f.blind--
	if len(dst) > rpi.MaxDirect {
		f.t.Errorf("direct read of %d bytes", len(dst))
	}
	copy(dst, buf[off:])
	f.reads++
	return true
}

// fake is one rank's module.
type fake struct {
	net       *fakeNet
	rank      int
	sink      rpi.Sink
	addrs     [][]byte
	wire      [][]*fakeFrame // arriving, by sender
	begun     []*begunFrame  // by sender
	starved   []bool         // senders refused
	notes     []func()       // what to tell the engine at the next Poll
	published map[uint64][]byte
	key       uint64
	quiesced  bool
	flushed   int    // calls of Flush
	flushing  func() // called by Flush
	arming    func() // called by Arm
	more      []bool
}

type fakeFrame struct {
	h       rpi.Header
	payload []byte
	ref     rpi.Ref // Held
}

type begunFrame struct {
	frame *fakeFrame
	dst   []byte
}

func (m *fake) Name() string { return "fake" }

func (m *fake) Start(env rpi.Env) ([]byte, error) {
	m.sink = env.Sink
	return []byte{byte(m.rank)}, nil
}

func (m *fake) Peers(addrs [][]byte) error { m.addrs = addrs; return nil }

func (m *fake) Reaches(peer int) bool { return m.addrs != nil && m.addrs[peer] != nil }

func (m *fake) EagerLimit() int { return 1 << 10 }

func (m *fake) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	if m.quiesced {
		m.net.t.Errorf("rank %d offers a frame of kind %d with the gate closed", m.rank, h.Kind)
	}
	to := m.net.modules[peer]
	if w := m.net.window; w > 0 && len(to.wire[m.rank]) >= w {
		to.starved[m.rank] = true
		return rpi.Full
	}
	if len(payload) != h.PayloadLen() {
		m.net.t.Errorf("kind %d: %d bytes of payload, header says %d", h.Kind, len(payload), h.PayloadLen())
	}
	m.more = append(m.more, more)
	if m.net.lost != nil && m.net.lost(m.rank, peer, h) {
		return rpi.Taken
	}
	fr := &fakeFrame{h: *h}
	if m.net.hold && len(payload) > 0 && ref != 0 {
		fr.payload, fr.ref = payload, ref
		to.wire[m.rank] = append(to.wire[m.rank], fr)
		return rpi.Held
	}
	fr.payload = append(fr.payload, payload...)
	to.wire[m.rank] = append(to.wire[m.rank], fr)
	return rpi.Taken
}

func (m *fake) Flush() bool {
	m.flushed++
	if m.flushing != nil {
		m.flushing()
	}
	return true
}

// Poll takes one turn for each peer: it begins a frame, or finishes one.
func (m *fake) Poll() bool {
	notes := m.notes
	m.notes = nil
	for _, note := range notes {
		note()
	}
	moved := len(notes) > 0
	for from := range m.wire {
		moved = m.pollPeer(from) || moved
	}
	return moved
}

func (m *fake) pollPeer(from int) bool {
	if b := m.begun[from]; b != nil {
		m.begun[from] = nil
		m.finish(from, b)
		return true
	}
	if len(m.wire[from]) == 0 {
		return false
	}
	fr := m.wire[from][0]
	m.wire[from] = m.wire[from][1:]
	dst, err := m.sink.Begin(from, &fr.h)
	if err != nil {
		m.sink.Down(from, err)
		return true
	}
	if b := (&begunFrame{fr, dst}); m.net.split {
		m.begun[from] = b
	} else {
		m.finish(from, b)
	}
	return true
}

func (m *fake) finish(from int, b *begunFrame) {
	copy(b.dst, b.frame.payload)
	m.sink.End(from)
	sender := m.net.modules[from]
	if ref := b.frame.ref; ref != 0 {
		sender.notes = append(sender.notes, func() { sender.sink.Sent(m.rank, ref) })
	}
	if m.starved[from] {
		m.starved[from] = false
		sender.notes = append(sender.notes, func() { sender.sink.Writable(m.rank) })
	}
}

func (m *fake) Arm() bool {
	if m.arming != nil {
		m.arming()
		return false
	}
	return true
}

func (m *fake) Quiesce() { m.quiesced = true }

func (m *fake) Quiet() bool { return true }

func (m *fake) Continue() { m.quiesced = false }

// Restart loses what a process loses: whom it had published to.
func (m *fake) Restart(env rpi.Env) ([]byte, error) {
	m.quiesced = false
	clear(m.published)
	clear(m.starved)
	return m.Start(env)
}

func (m *fake) Close() error { return nil }

// Publish, Withdraw and Write make a fake a rpi.DirectWriter. Its keys are
// numbers; a real module would keep the buffer by unsafe.Pointer in a table.

func (m *fake) Publish(_ int, buf []byte) (uint64, bool) {
	if !m.net.direct {
		return 0, false
	}
	m.key++
	m.published[m.key] = buf
	return m.key, true
}

func (m *fake) Withdraw(_ int, key uint64) {
	if m.published[key] == nil {
		m.net.t.Errorf("rank %d withdraws key %d, which is not published", m.rank, key)
	}
	delete(m.published, key)
}

func (m *fake) Write(peer int, key, off uint64, src []byte) bool {
	if m.quiesced {
		m.net.t.Errorf("rank %d writes with the gate closed", m.rank)
	}
	buf := m.net.modules[peer].published[key]
	if buf == nil || m.net.fragile == 0 {
		return false
	}
	m.net.fragile--
	if len(src) > rpi.MaxDirect {
		m.net.t.Errorf("direct write of %d bytes", len(src))
	}
	copy(buf[off:], src)
	m.net.writes++
	return true
}

// drive lets all engines go on until done.
func drive(t testing.TB, engines []*engine.Engine, done func() bool) {
	t.Helper()
	for range 100_000 {
		if done() {
			return
		}
		for _, e := range engines {
			if e.GateClosed() {
				e.Step()
			} else {
				e.Progress()
			}
		}
	}
	for i, e := range engines {
		if e.GateClosed() {
			e.OpenGate()
		}
		t.Logf("rank %d: %v", i, e.Pending())
	}
	t.Fatal("the engines do not get there")
}

// settle lets all engines go on until nothing moves.
func settle(engines []*engine.Engine) {
	for moved := true; moved; {
		moved = false
		for _, e := range engines {
			if e.GateClosed() {
				moved = e.Step() || moved
			} else {
				moved = e.Progress() || moved
			}
		}
	}
}
