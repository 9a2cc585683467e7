package sim

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// inbox is a Sink that keeps whole frames.
type inbox struct {
	h     rpi.Header
	dst   []byte
	whole []string
}

func (b *inbox) Begin(_ int, h *rpi.Header) ([]byte, error) {
	b.h, b.dst = *h, make([]byte, h.PayloadLen())
	return b.dst, nil
}
func (b *inbox) End(int)           { b.whole = append(b.whole, string(b.dst)) }
func (b *inbox) Sent(int, rpi.Ref) {}
func (b *inbox) Writable(int)      {}
func (b *inbox) Down(int, error)   {}
func (b *inbox) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := b.Begin(peer, h)
	if err != nil {
		return err
	}
	copy(dst, payload)
	b.End(peer)
	return nil
}

// TestSlots leaves a frame in a slot of each of two readers. After Quiesce a
// reader's next Poll has it in private memory, in order with what was sent, and
// the slot is empty.
func TestSlots(t *testing.T) {
	w := &world{rng: rand.New(rand.NewPCG(1, 2)), np: 3, places: make([]place, 3), plan: &plan{np: 3, agents: 1, eager: 100}, shape: shape{window: 1000, nodes: 1}}
	w.net = newFabric(w)
	boxes := make([]*inbox, w.np)
	for i, m := range w.net.mods {
		boxes[i] = &inbox{}
		w.ranks = append(w.ranks, &rank{w: w, id: i, alive: true})
		if _, err := m.Start(rpi.Env{Sink: boxes[i]}); err != nil {
			t.Fatal(err)
		}
	}
	m := w.net.mods[0]
	h := &rpi.Header{Kind: rpi.Eager, Len: 5}
	settle := func(done func() bool) {
		for range 1000 {
			if done() {
				return
			}
			for _, m := range w.net.mods {
				m.Poll()
			}
		}
		t.Fatal("nothing moves any more")
	}
	send := func(to int, text string) {
		settle(func() bool { return m.Send(to, h, []byte(text), 1, false) != rpi.Full })
	}
	send(1, "first")
	send(2, "first")
	settle(func() bool { return len(boxes[1].whole)+len(boxes[2].whole) == 2 })
	for _, c := range []*conn{m.conn(1), m.conn(2)} {
		if !c.idle() {
			t.Fatal(c)
		}
		m.wake(c)
		c.publish(h, []byte("slots"), false)
	}
	send(1, "after")
	for i, want := range [][]string{1: {"first", "slots"}, 2: {"first", "slots"}} {
		w.net.mods[i].Quiesce()
		w.net.mods[i].Poll()
		got := boxes[i].whole
		if i > 0 && (len(got) < len(want) || got[1] != want[1]) {
			t.Errorf("rank %d has %q, want %q", i, got, want)
		}
	}
	settle(func() bool { return len(boxes[1].whole) == 3 })
	if boxes[1].whole[2] != "after" {
		t.Errorf("rank 1 has %q", boxes[1].whole)
	}
	if c := w.net.busy(-1); c != nil {
		t.Errorf("not at rest: %v", c)
	}
}

// TestDirectWrites writes into a published buffer in both ways, and not after
// Withdraw.
func TestDirectWrites(t *testing.T) {
	for _, mode := range []directMode{copyAtOnce, putInFlight} {
		w := &world{rng: rand.New(rand.NewPCG(3, 4)), np: 2, places: make([]place, 2), plan: &plan{np: 2, agents: 1, eager: 100}, shape: shape{window: 1000, nodes: 1, direct: mode, landing: 3}}
		w.net = newFabric(w)
		for i, m := range w.net.mods {
			w.ranks = append(w.ranks, &rank{w: w, id: i, alive: true})
			if _, err := m.Start(rpi.Env{Sink: &inbox{}}); err != nil {
				t.Fatal(err)
			}
		}
		m, peer := w.net.mods[0], w.net.mods[1]
		m.conn(1).state = connOpen
		buf := make([]byte, 8)
		publish := func() uint64 {
			for {
				if key, ok := peer.Publish(0, buf); ok {
					return key
				}
			}
		}
		write := func(key uint64, text string) {
			for !m.Write(1, key, 0, []byte(text)) {
			}
			if quiet := m.Quiet(); quiet != (mode == copyAtOnce) {
				t.Errorf("mode %d: quiet %v with a write under way", mode, quiet)
			}
		}
		key := publish()
		write(key, "abcdefgh")
		for !m.Quiet() {
			m.Poll()
		}
		if string(buf) != "abcdefgh" {
			t.Errorf("mode %d: %q", mode, buf)
		}
		if mode == putInFlight {
			write(key, "too late")
			peer.Withdraw(0, key)
			for !m.Quiet() {
				m.Poll()
			}
			if !bytes.Equal(buf, []byte("abcdefgh")) {
				t.Errorf("a write landed after Withdraw: %q", buf)
			}
		}
	}
}
