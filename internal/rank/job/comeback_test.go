package job

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// wire is a rank's link whose other end is a test.
type wire struct {
	down, up chan oob.Msg
	wants    uint64 // the incarnation in which the rank has said FinalizeWant
}

func (w *wire) Send(ms ...oob.Msg) error {
	for _, m := range ms {
		w.up <- m
	}
	return nil
}

func (w *wire) Recv() (oob.Msg, error) {
	m, ok := <-w.down
	if !ok {
		return m, io.EOF
	}
	return m, nil
}

// lonely is rank 0 of a job of two whose rank 1 is not there.
func lonely(t *testing.T, modules bool) (j *Job, w *wire, lost chan error) {
	t.Helper()
	m := mem.NewFabric(2).Module(0)
	e := engine.New(engine.Config{Rank: 0, Size: 2, Modules: []rpi.Module{m}})
	if _, err := m.Start(rpi.Env{Rank: 0, Size: 2, Incarnation: 1, Sink: e.Sink(0)}); err != nil {
		t.Fatal(err)
	}
	if err := m.Peers([][]byte{nil, []byte("mem")}); err != nil {
		t.Fatal(err)
	}
	e.Start()
	w, lost = &wire{down: make(chan oob.Msg), up: make(chan oob.Msg, 100)}, make(chan error, 10)
	c := Config{Start: oob.StartConfig{Job: "one", Incarnation: 1, Size: 2, RPI: []string{"mem"}}, Engine: e,
		Waiter: m.(rpi.Waiter), Link: w, Lost: func(err error) { lost <- err }}
	if modules {
		c.Modules = []rpi.Module{m}
	}
	j = New(c)
	t.Cleanup(func() { close(w.down) })
	return j, w, lost
}

func (w *wire) order(m oob.Msg) {
	m.From = oob.Head
	w.down <- m
}

// ready brings the rank to where it is imaged.
func (w *wire) ready(t *testing.T, incarnation uint64, attempt uint32) {
	t.Helper()
	w.order(oob.Msg{Kind: oob.Close, A: oob.ModeNative, Incarnation: incarnation, Attempt: attempt})
	w.down <- oob.Msg{Kind: oob.Bookmark, From: 1, Incarnation: incarnation, Attempt: attempt}
	w.expect(t, oob.Bookmark, incarnation)
	w.expect(t, oob.Ready, incarnation)
}

func (w *wire) expect(t *testing.T, kind oob.Kind, incarnation uint64) oob.Msg {
	t.Helper()
	m := <-w.up
	for m.Kind == oob.FinalizeWant && m.Incarnation == w.wants { // entered while the rank came up: then it may say so twice
		m = <-w.up
	}
	if m.Kind == oob.FinalizeWant {
		w.wants = m.Incarnation
	}
	if m.Kind != kind || m.Incarnation != incarnation || m.From != 0 {
		t.Fatalf("kind %d of rank %d, incarnation %d, where kind %d of %d was expected: %s", m.Kind, m.From, m.Incarnation, kind, incarnation, m.Data)
	}
	return m
}

// connect is the rest of the exchange of addresses.
func (w *wire) connect(t *testing.T, incarnation uint64) {
	t.Helper()
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: incarnation, Data: []byte(`[{"mem":""},{"mem":"bWVt"}]`)})
	w.expect(t, oob.Reach, incarnation)
	w.order(oob.Msg{Kind: oob.Routes, Incarnation: incarnation, Data: []byte(`{}`)})
}

func startAs(t *testing.T, s oob.StartConfig) oob.Msg {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return oob.Msg{Kind: oob.Start, Incarnation: s.Incarnation, Data: data}
}

func next(incarnation uint64) oob.StartConfig {
	return oob.StartConfig{Job: "two", Incarnation: incarnation, Size: 2, RPI: []string{"mem"}, Image: "image", Backend: "native"}
}

// The frames that a rank sends and gets on its way from one incarnation to the next.
func TestComeBack(t *testing.T) {
	j, w, _ := lonely(t, true)
	w.ready(t, 1, 1)
	w.order(oob.Msg{Kind: oob.Commit, Incarnation: 1, Attempt: 1, A: 4}) // the job was to end with this one
	w.order(startAs(t, next(2)))
	w.order(oob.Msg{Kind: oob.Revert, Incarnation: 1, Attempt: 1})
	hello := w.expect(t, oob.Hello, 2)
	if h, err := oob.CheckHello(&hello); err != nil || h.PID == 0 {
		t.Error(h, err)
	}
	w.expect(t, oob.Address, 2)
	w.order(oob.Msg{Kind: oob.FinalizeGo, Incarnation: 1})
	// The head begins nothing before all are up; whatever comes is not for us.
	w.order(oob.Msg{Kind: oob.Ask, Incarnation: 2, Attempt: 1})
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: 1, Data: []byte(`[{},{}]`)})
	w.connect(t, 2)
	w.expect(t, oob.Up, 2)
	if j.ID() != "two" || j.Incarnation() != 2 || j.Restarted() || j.Image != "" {
		t.Errorf("job %q, incarnation %d, restarted %v", j.ID(), j.Incarnation(), j.Restarted())
	}
	if j.Engine.GateClosed() {
		t.Error("the gate is closed")
	}
	// A word of an attempt of the life before, which had the same number.
	w.ready(t, 2, 1)
	j.driver.tell(origin{1, 1}, unable(ErrNoBackend))
	w.order(oob.Msg{Kind: oob.Open, Incarnation: 1, Attempt: 1})
	w.order(oob.Msg{Kind: oob.Ask, Incarnation: 2, Attempt: 1})
	if m := w.expect(t, oob.Where, 2); !strings.HasPrefix(string(m.Data), "is ready; ") {
		t.Errorf("%s", m.Data)
	}
	// Finalize is entered while the rank is imaged: the next head must hear of it.
	over := make(chan error)
	go func() { over <- j.Finalize(0, nil) }()
	w.expect(t, oob.FinalizeWant, 2)
	w.order(startAs(t, next(3)))
	w.expect(t, oob.Hello, 3)
	w.expect(t, oob.Address, 3)
	w.connect(t, 3)
	w.expect(t, oob.Up, 3)
	w.expect(t, oob.FinalizeWant, 3)
	w.order(oob.Msg{Kind: oob.FinalizeGo, Incarnation: 3})
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// moves is what a rank is told that stays, or of which nothing but its place has changed.
func moves(incarnation uint64) oob.StartConfig {
	s := next(incarnation)
	s.Image, s.Backend, s.Moves = "", "", true
	return s
}

// A rank that stays while others move: its gate opens at Running, and until then it takes another Start.
func TestOthersMove(t *testing.T) {
	j, w, lost := lonely(t, true)
	greet := func(incarnation uint64) {
		w.order(startAs(t, moves(incarnation)))
		w.expect(t, oob.Hello, incarnation)
		w.expect(t, oob.Address, incarnation)
	}
	closed := func(when string) {
		t.Helper()
		if !j.Engine.GateClosed() {
			t.Errorf("the gate is open %s", when)
		}
	}
	w.ready(t, 1, 1)
	greet(2) // given up before it has heard of the others
	w.order(oob.Msg{Kind: oob.Running, Incarnation: 2})
	greet(3) // after
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: 3, Data: []byte(`[{"mem":""},{"mem":"bWVt"}]`)})
	w.expect(t, oob.Reach, 3)
	greet(4)                                                                   // when it is up
	w.order(oob.Msg{Kind: oob.Routes, Incarnation: 3, Data: []byte(`{}`)})     // not for us
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: 2, Data: []byte(`[{},{}]`)}) // nor this
	w.connect(t, 4)
	w.expect(t, oob.Up, 4)
	closed("before the others are up")
	over := make(chan error)
	go func() { over <- j.Finalize(0, nil) }()
	w.expect(t, oob.FinalizeWant, 4)
	w.order(oob.Msg{Kind: oob.Running, Incarnation: 3})
	w.order(oob.Msg{Kind: oob.Revert, Incarnation: 1, Attempt: 1})
	greet(5) // when it could not join
	closed("after Running of an incarnation that was given up")
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: 5, Data: []byte(`[{"mem":""},{"smoke":"bWVt"}]`)})
	w.expect(t, oob.Reach, 5)
	w.order(oob.Msg{Kind: oob.Routes, Incarnation: 5, Data: []byte(`{}`)})
	m := w.expect(t, oob.Failure, 5)
	if m.B != oob.FailureStands || !strings.Contains(string(m.Data), "cannot go on when ranks move: ") || !strings.Contains(string(m.Data), "rank 1: no transport reaches it") {
		t.Errorf("the head is told %d, %s", m.B, m.Data)
	}
	w.order(oob.Msg{Kind: oob.Running, Incarnation: 5})
	w.order(oob.Msg{Kind: oob.Peers, Incarnation: 5, Data: []byte(`[{"mem":""},{"mem":"bWVt"}]`)})
	greet(6)
	closed("of a rank that could not join")
	w.connect(t, 6)
	w.expect(t, oob.Up, 6)
	w.expect(t, oob.FinalizeWant, 6)
	w.down <- oob.Msg{Kind: oob.Bookmark, From: 1, Incarnation: 6, Attempt: 1} // the other one goes on already
	w.order(oob.Msg{Kind: oob.Running, Incarnation: 6})
	for j.Engine.GateClosed() {
		runtime.Gosched()
	}
	w.order(oob.Msg{Kind: oob.Close, A: oob.ModeNative, Incarnation: 6, Attempt: 1})
	w.expect(t, oob.Bookmark, 6)
	w.expect(t, oob.Ready, 6)
	w.order(oob.Msg{Kind: oob.Revert, Incarnation: 6, Attempt: 1})
	w.order(oob.Msg{Kind: oob.FinalizeGo, Incarnation: 6})
	if err := <-over; err != nil {
		t.Error(err)
	}
	select {
	case err := <-lost:
		t.Error(err)
	default:
	}
}

// A program at its first Point waits for its agent. One that stays has the same agent, which will answer.
func TestNotedWhenOthersMove(t *testing.T) {
	for name, c := range map[string]struct {
		s     oob.StartConfig
		noted int
	}{"restored": {next(2), 1}, "moved": {func() oob.StartConfig { s := moves(2); s.Image = "image"; return s }(), 1}, "stays": {moves(2), 0}} {
		t.Run(name, func(t *testing.T) {
			j, w, _ := lonely(t, true)
			w.ready(t, 1, 1)
			w.order(startAs(t, c.s))
			w.expect(t, oob.Hello, 2)
			w.expect(t, oob.Address, 2)
			if n := len(j.noted); n != c.noted {
				t.Errorf("%d answers", n)
			}
		})
	}
}

// A rank that cannot go on tells the head why, in the new incarnation, and ends.
func TestComeBackFails(t *testing.T) {
	for name, c := range map[string]struct {
		early, still        bool // not Ready; without modules of its own
		change              func(*oob.StartConfig)
		peers, routes, want string
	}{
		"not ready":         {early: true, want: "it was not ready to be imaged but running"},
		"another rank":      {change: func(s *oob.StartConfig) { s.Rank = 1 }, want: "the order to go on is for rank 1 of 2"},
		"no rank":           {change: func(s *oob.StartConfig) { s.Rank = 7 }, want: "rank 7 of 2"},
		"another size":      {change: func(s *oob.StartConfig) { s.Size = 3 }, want: "for rank 0 of 3"},
		"no transport":      {change: func(s *oob.StartConfig) { s.RPI = []string{"mem", "smoke"} }, want: `no transport "smoke"`},
		"not ours":          {still: true, want: "cannot be restored"},
		"peers unreachable": {peers: `[{"mem":""},{"smoke":"bWVt"}]`, routes: `{}`, want: "rank 1: no transport reaches it"},
		"one-way":           {peers: `[{"mem":""},{"mem":"bWVt"}]`, routes: `{"forgo":{"0":[{"transport":"mem","ranks":[[1,1]]}]}}`, want: "ranks that do not reach it"},
		"peers missing":     {peers: `[{"mem":""}]`, want: "1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, w, lost := lonely(t, !c.still)
			if !c.early {
				w.ready(t, 1, 1)
			}
			s := next(2)
			if c.change != nil {
				c.change(&s)
			}
			w.order(startAs(t, s))
			if c.peers != "" {
				w.expect(t, oob.Hello, 2)
				w.expect(t, oob.Address, 2)
				w.order(oob.Msg{Kind: oob.Peers, Incarnation: 2, Data: []byte(c.peers)})
			}
			if c.routes != "" {
				w.expect(t, oob.Reach, 2)
				w.order(oob.Msg{Kind: oob.Routes, Incarnation: 2, Data: []byte(c.routes)})
			}
			m := w.expect(t, oob.Failure, 2)
			if m.B != 0 || !strings.Contains(string(m.Data), c.want) || !strings.HasPrefix(string(m.Data), "rank 0 cannot go on from its image: ") {
				t.Errorf("the head is told: %s", m.Data)
			}
			if err := <-lost; err == nil || err.Error() != string(m.Data) {
				t.Errorf("the process ends with %v", err)
			}
		})
	}
}
