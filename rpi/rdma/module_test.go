package rdma

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
)

type world = moduletest.World[*Module]

func newWorld(t *testing.T, n int, change ...func(*rpi.Env)) *world {
	t.Helper()
	w := moduletest.NewWorld(t, n, over(1, soft.Faults{}), change...)
	t.Cleanup(w.Close)
	return w
}

// TestCredits: a receiver that takes nothing stops the sender after rdma.depth frames, and costs no more memory.
func TestCredits(t *testing.T) {
	w := newWorld(t, 2, moduletest.With("rdma.depth", "8"))
	w.Connect(0, 1)
	sent := 0
	for h := moduletest.Eager(0, 100); sent < 100; sent++ {
		h.Tag = int32(sent)
		if w.M[0].Send(1, &h, moduletest.Pattern(sent, 100), 0, sent%3 > 0) == rpi.Full {
			break
		}
		w.M[0].Poll()
	}
	if sent > 8 || sent < 4 {
		t.Errorf("%d frames were taken", sent)
	}
	w.Until("room", func() bool { return w.S[0].Room[1] > 0 })
	w.Until("all there", func() bool { return len(w.S[1].Got[0]) == sent })
	for i, f := range w.S[1].Got[0] {
		moduletest.Check(t, f, i, 100)
	}
}

// TestUnregistered: where memory cannot be registered, long frames go through the stage, one after the other.
func TestUnregistered(t *testing.T) {
	fabric := soft.NewFabric(1, soft.Faults{})
	w := moduletest.NewWorld(t, 3, func(int) *Module { return Over(stingy{fabric}) })
	defer w.Close()
	for i := range 4 {
		for from := range 2 {
			h := rpi.Header{Kind: rpi.Data, Tag: int32(i), Len: 100_000}
			if got := w.Send(from, 2, h, moduletest.Pattern(i, 100_000), 5, false); got != rpi.Taken {
				t.Errorf("answer %v", got)
			}
		}
	}
	for from := range 2 {
		w.Until("all there", func() bool { return len(w.S[2].Got[from]) == 4 })
		for i, f := range w.S[2].Got[from] {
			moduletest.Check(t, f, i, 100_000)
		}
	}
}

// stingy has devices that register no memory of 100000 bytes.
type stingy struct{ *soft.Fabric }

func (s stingy) Open(name string) (provider.Device, error) {
	d, err := s.Fabric.Open(name)
	return stingyDevice{d}, err
}

type stingyDevice struct{ provider.Device }

func (d stingyDevice) AllocDomain() (provider.ProtectionDomain, error) {
	p, err := d.Device.AllocDomain()
	return stingyDomain{p}, err
}

type stingyDomain struct{ provider.ProtectionDomain }

func (d stingyDomain) Register(buf []byte, access provider.Access) (provider.MemoryRegion, error) {
	if len(buf) == 100_000 {
		return nil, provider.ErrLimit
	}
	return d.ProtectionDomain.Register(buf, access)
}

// TestPeerDies: whoever sends to a peer that is gone is told once, with its rank.
func TestPeerDies(t *testing.T) {
	w := newWorld(t, 2)
	w.Connect(0, 1)
	w.M[1].release() // without a word
	for h := moduletest.Eager(0, 8); w.M[0].Send(1, &h, make([]byte, 8), 0, false) != rpi.Taken; {
		w.M[0].Poll()
	}
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	for range 100 {
		w.Poll()
	}
	if d := w.S[0].Downs[1]; len(d) != 1 || !strings.Contains(d[0].Error(), "rank 1") {
		t.Error(d)
	}
}

// TestPeerDiesWhileItDrains: the survivor is told, and gets quiet without the peer.
func TestPeerDiesWhileItDrains(t *testing.T) {
	w := newWorld(t, 3)
	w.Connect(0, 1)
	w.Connect(0, 2)
	h := moduletest.Eager(0, 8)
	if w.M[0].Send(1, &h, make([]byte, 8), 0, false) != rpi.Taken {
		t.Fatal("not taken")
	}
	w.M[0].Quiesce()
	w.M[2].Quiesce()
	w.M[1].release()
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	quiet := func(i int) bool { w.M[i].Poll(); return w.M[i].Quiet() }
	w.Until("quiet", func() bool { a := quiet(0); return quiet(2) && a })
	w.M[0].Continue()
	w.M[2].Continue()
	w.Connect(0, 2)
}

// TestOtherLimits: on a device that allows less than the one before, connections are made anew.
func TestOtherLimits(t *testing.T) {
	w := newWorld(t, 2)
	w.Connect(0, 1)
	level(w)
	next := soft.NewFabric(9, soft.Faults{})
	w.M[0].from, w.M[1].from = shallow{next, new(bool)}, next
	again(t, w)
	if len(w.M[0].all) != 0 || len(w.M[1].all) != 0 {
		t.Error("a connection has come through that only one side has")
	}
	w.Connect(0, 1)
	w.Connect(1, 0)
}

// level has all modules quiet.
func level(w *world) {
	for _, m := range w.M {
		m.Quiesce()
	}
	w.Until("quiet", func() bool {
		all := true
		for _, m := range w.M {
			all = m.Quiet() && all
		}
		return all
	})
}

// again restarts all modules.
func again(t *testing.T, w *world) {
	t.Helper()
	for i, m := range w.M {
		e := moduletest.Env(i, len(w.M))
		e.Sink, e.Incarnation = w.S[i], m.env.Incarnation+1
		var err error
		if w.Addrs[i], err = m.Restart(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range w.M {
		if err := m.Peers(w.Addrs); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range w.M {
		m.Continue()
	}
}

// shallow has devices of which the first refuses a pair, as one does that allows less.
type shallow struct {
	*soft.Fabric
	refused *bool
}

func (s shallow) Open(name string) (provider.Device, error) {
	d, err := s.Fabric.Open(name)
	return shallowDevice{d, s.refused}, err
}

type shallowDevice struct {
	provider.Device
	refused *bool
}

func (d shallowDevice) AllocDomain() (provider.ProtectionDomain, error) {
	p, err := d.Device.AllocDomain()
	return shallowDomain{p, d.refused}, err
}

type shallowDomain struct {
	provider.ProtectionDomain
	refused *bool
}

func (d shallowDomain) CreateQueuePair(c provider.QueuePairConfig) (provider.QueuePair, error) {
	if !*d.refused {
		*d.refused = true
		return nil, provider.ErrLimit
	}
	return d.ProtectionDomain.CreateQueuePair(c)
}

// TestGoesOn: connections come through restarts, over another network, again and again, and nothing is made anew.
func TestGoesOn(t *testing.T) {
	w := newWorld(t, 2)
	w.Connect(0, 1)
	pair := w.M[0].conns[1].pair
	for i := range 5 {
		level(w)
		next := soft.NewFabric(uint64(i), soft.Faults{})
		for _, m := range w.M {
			m.from = next
		}
		if i == 2 { // one that was given up before all knew all
			again(t, w)
			level(w)
			for k, m := range w.M {
				e := moduletest.Env(k, 2)
				e.Sink = w.S[k]
				if _, err := m.Restart(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		again(t, w)
		if c := w.M[0].conns[1]; c == nil || c.pair != pair || c.state != up {
			t.Fatal("the connection was made anew")
		}
		before := len(w.S[1].Got[0])
		for k := range 40 {
			n := []int{0, 8, 5000, 300_000}[k%4]
			h := rpi.Header{Kind: rpi.Data, Tag: int32(k), Len: uint64(n)}
			w.Send(0, 1, h, moduletest.Pattern(k, n), rpi.Ref(1+k), k%2 == 0)
		}
		w.Until("all there", func() bool { return len(w.S[1].Got[0]) == before+40 })
		for k, f := range w.S[1].Got[0][before:] {
			moduletest.Check(t, f, k, []int{0, 8, 5000, 300_000}[k%4])
		}
	}
}

// TestDevices tells which devices are refused, and why.
func TestDevices(t *testing.T) {
	for _, c := range []struct {
		name, value string
		wide        bool
		says        string
		unavailable bool
	}{
		{"rdma.provider", "mlx9", false, "rdma.provider=mlx9: this program has", false},
		{"rdma.device", "eth77", false, `no device "eth77"`, true},
		{"rdma.depth", "1", false, "rdma.depth", false},
		{"rdma.device", "127.0.0.1", true, "no device that reaches other machines", true},
	} {
		e := moduletest.Env(0, 2)
		e.Sink, e.Wide, e.Params[c.name] = moduletest.NewSink(2), c.wide, c.value
		m := New()
		_, err := m.Start(e)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, rpi.ErrUnavailable) != c.unavailable {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
		_ = m.Close()
	}
}

// TestApart: ranks reach each other only over the same provider, in the same network.
func TestApart(t *testing.T) {
	fabrics := []*soft.Fabric{soft.NewFabric(1, soft.Faults{}), soft.NewFabric(2, soft.Faults{})}
	w := moduletest.NewWorld(t, 3, func(rank int) *Module { return Over(fabrics[rank/2]) })
	defer w.Close()
	got := fmt.Sprint(w.M[0].Reaches(1), w.M[0].Reaches(2), w.M[2].Reaches(0), w.M[1].Reaches(0), w.M[0].Reaches(0), w.M[0].Reaches(3))
	if got != "true false false true false false" {
		t.Error(got)
	}
}

// opener notes what it opens.
type opener struct {
	provider.Provider
	opened string
}

func (o *opener) Open(name string) (provider.Device, error) {
	o.opened = name
	return o.Provider.Open("")
}

// TestDeviceAtAddress: a device may be named with the address that it is to use, which List does not tell.
func TestDeviceAtAddress(t *testing.T) {
	o := &opener{Provider: soft.NewFabric(1, soft.Faults{})}
	list, err := o.List()
	if err != nil {
		t.Fatal(err)
	}
	m := New()
	m.params.device = list[0].Name + "/192.0.2.1"
	dev, err := m.openOf(o)
	if err != nil {
		t.Fatal(err)
	}
	if o.opened != m.params.device {
		t.Errorf("%q was opened", o.opened)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
}
