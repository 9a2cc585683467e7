package tcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

var _ rpi.Asker = (*Module)(nil)

// askers are modules that are told no address. asked are the questions, as pairs of ranks.
type askers struct {
	*world
	asked [][2]int
}

func newAskers(t *testing.T, n int, change ...func(*rpi.Env)) *askers {
	a := &askers{world: &world{T: t}}
	for rank := range n {
		e := env(rank, n)
		for _, f := range change {
			f(&e)
		}
		e.Ask = func(peer int) { a.asked = append(a.asked, [2]int{rank, peer}) }
		s, m := newSink(n), New()
		e.Sink = s
		addr, err := m.Start(e)
		if err != nil {
			t.Fatal(err)
		}
		a.M, a.S, a.Addrs = append(a.M, m), append(a.S, s), append(a.Addrs, addr)
	}
	for _, m := range a.M {
		if err := m.Peers(slices.Repeat([][]byte{{}}, n)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(a.Close)
	return a
}

// offer sends a frame if that is possible now.
func (a *askers) offer(from, to int) rpi.SendResult {
	h := eager(0, 8)
	return a.M[from].Send(to, &h, pattern(0, 8), 0, false)
}

// answer answers all questions.
func (a *askers) answer() {
	for _, q := range a.asked {
		a.M[q[0]].Located(q[1], a.Addrs[q[1]])
	}
	a.asked = nil
}

// A rank asks for the address of a peer when it first sends to it, and once. The peer needs none to answer.
func TestAsk(t *testing.T) {
	a := newAskers(t, 3)
	if !a.M[0].Reaches(1) || !a.M[0].Reaches(2) {
		t.Fatal("a peer whose address is to be asked for is not reached")
	}
	for range 3 {
		if a.offer(0, 1) != rpi.Full {
			t.Fatal("a frame was taken for an unknown peer")
		}
		a.Poll()
	}
	if !slices.Equal(a.asked, [][2]int{{0, 1}}) {
		t.Fatalf("asked: %v", a.asked)
	}
	a.answer()
	if a.M[0].Arm() {
		t.Error("Arm allows to wait with an answer there")
	}
	a.Until("rank 0 may send", func() bool { return a.offer(0, 1) != rpi.Full })
	a.Until("it arrived", func() bool { return len(a.S[1].Got[0]) == 1 })
	a.Until("the other way", func() bool { return a.offer(1, 0) != rpi.Full })
	if a.asked != nil {
		t.Errorf("asked again: %v", a.asked)
	}
}

// Both ask and connect at once: one connection is left.
func TestAskBoth(t *testing.T) {
	a := newAskers(t, 2)
	a.offer(0, 1)
	a.offer(1, 0)
	if len(a.asked) != 2 {
		t.Fatalf("asked: %v", a.asked)
	}
	a.answer()
	for from := range 2 {
		a.Until("it may send", func() bool { return a.offer(from, 1-from) != rpi.Full })
	}
	a.Until("both arrived", func() bool { return len(a.S[0].Got[1]) > 0 && len(a.S[1].Got[0]) > 0 })
	a.Until("one connection each", func() bool { return len(a.M[0].conns) == 1 && len(a.M[1].conns) == 1 })
}

// What comes while a checkpoint runs begins nothing before it is over.
func TestAskQuiesced(t *testing.T) {
	a := newAskers(t, 2)
	a.offer(0, 1)
	for _, m := range a.M {
		m.Quiesce()
	}
	a.answer()
	a.Poll()
	if a.M[0].attempts != 0 || !a.M[0].Quiet() {
		t.Error("a connection is begun while the gate is closed")
	}
	for _, m := range a.M {
		m.Continue()
	}
	a.Until("rank 0 may send", func() bool { return a.offer(0, 1) != rpi.Full })
	if a.asked != nil {
		t.Errorf("asked again: %v", a.asked)
	}
}

// An address of before a restart is not used, whether Poll had taken it or not.
func TestAskRestart(t *testing.T) {
	for _, polled := range []bool{false, true} {
		a := newAskers(t, 2)
		a.offer(0, 1)
		a.answer()
		if polled {
			a.M[0].placed()
		}
		for rank, m := range a.M {
			e := env(rank, 2)
			e.Incarnation, e.Sink = 78, a.S[rank]
			e.Ask = func(peer int) { a.asked = append(a.asked, [2]int{rank, peer}) }
			addr, err := m.Restart(e)
			if err != nil {
				t.Fatal(err)
			}
			a.Addrs[rank] = addr
		}
		for _, m := range a.M {
			if err := m.Peers([][]byte{{}, {}}); err != nil {
				t.Fatal(err)
			}
		}
		a.Poll()
		if a.offer(0, 1); !slices.Equal(a.asked, [][2]int{{0, 1}}) {
			t.Fatalf("polled %t: asked %v", polled, a.asked)
		}
		a.answer()
		a.Until("rank 0 may send", func() bool { return a.offer(0, 1) != rpi.Full })
	}
}

// An answer that is no address is the peer's end, and one that nobody has asked for is nothing.
func TestAskWrong(t *testing.T) {
	a := newAskers(t, 3)
	a.M[0].Located(2, a.Addrs[2])
	a.M[0].Located(-1, a.Addrs[2])
	a.M[0].Located(7, a.Addrs[2])
	a.Poll()
	if a.M[0].peer(2).addr.port != 0 {
		t.Error("an address that was not asked for is taken")
	}
	a.offer(0, 1)
	a.M[0].Located(1, []byte("no address"))
	a.Until("rank 1 is down", func() bool { return len(a.S[0].Downs[1]) > 0 })
	if err := a.S[0].Downs[1][0]; !strings.Contains(err.Error(), "rank 1") {
		t.Error(err)
	}
}

// Where a rank has no way to ask, an address of no bytes is none.
func TestNobodyToAsk(t *testing.T) {
	w := newWorld(t, 1)
	defer w.Close()
	m := New()
	e := env(0, 2)
	e.Sink = moduletest.NewSink(2)
	if _, err := m.Start(e); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Peers([][]byte{{}, {}}); err == nil {
		t.Error("taken for an address")
	}
}
