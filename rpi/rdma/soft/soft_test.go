package soft

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
)

func TestProvider(t *testing.T) {
	over := func(name string, p provider.Provider) {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func() (provider.Device, error) { return p.Open("") })
		})
	}
	over("udp", Provider{})
	over("fabric", NewFabric(1, Faults{}))
	for seed := range uint64(5) {
		over(fmt.Sprint("faults", seed), NewFabric(seed, Faults{Lost: 20, Twice: 10, Late: 30, Overtaken: 30, Completions: 50, Order: true, MTU: 700}))
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connected returns a pair of a new device, which is connected to one of another.
func connected(t *testing.T, p provider.Provider) *pair {
	t.Helper()
	var pairs [2]provider.QueuePair
	for i := range pairs {
		d, err := p.Open("")
		check(t, err)
		t.Cleanup(func() { _ = d.Close() })
		o, err := d.AllocDomain()
		check(t, err)
		q, err := d.CreateCompletionQueue(64)
		check(t, err)
		r, err := o.Register(make([]byte, 100), provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite)
		check(t, err)
		pairs[i], err = o.CreateQueuePair(provider.QueuePairConfig{SendQueue: q, ReceiveQueue: q, SendDepth: 16, ReceiveDepth: 16, Segments: 3, Inline: 64})
		check(t, err)
		check(t, pairs[i].Modify(provider.Change{To: provider.Init, Access: provider.RemoteRead | provider.RemoteWrite}))
		_, err = pairs[i].PostReceive([]provider.ReceiveRequest{{Segments: []provider.Segment{{Data: r.(*region).buf, Key: r.LocalKey()}}}})
		check(t, err)
	}
	for i := range pairs {
		check(t, pairs[i].Modify(provider.Change{To: provider.ReadyToReceive, Peer: pairs[1-i].Address()}))
		check(t, pairs[i].Modify(provider.Change{To: provider.ReadyToSend}))
	}
	return pairs[0].(*pair)
}

func FuzzPacket(f *testing.F) {
	f.Add((&packet{Kind: data, Opcode: provider.Send, To: 1, Cookie: 2, Payload: []byte("x")}).append(nil))
	fabric := NewFabric(0, Faults{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p packet
		if p.parse(b) != nil {
			return
		}
		if again := p.append(nil); len(again) != len(b) {
			t.Errorf("%d bytes, were %d", len(again), len(b))
		}
		q := connected(t, fabric)
		p.To, p.From, p.Cookie = q.number, q.peer.number, q.cookie // it knows the secret
		q.dev.arrived(&p)
		q.dev.progress()
	})
}

// TestGarbage tests that messages make none.
func TestGarbage(t *testing.T) {
	if n := providertest.Garbage(t, func() (provider.Device, error) { return Provider{}.Open("127.0.0.1") }); n >= 1 {
		t.Errorf("%.1f allocations a message", n)
	}
}
