package virtual

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
)

var errRefused = errors.New("refused")

// refusing is a device whose pairs refuse while it is shut.
type refusing struct {
	provider.Device
	shut   bool
	spared uint32 // the number of a pair that takes all
}

type refusingDomain struct {
	provider.ProtectionDomain
	of *refusing
}

type refusingPair struct {
	provider.QueuePair
	of *refusing
}

func (d *refusing) AllocDomain() (provider.ProtectionDomain, error) {
	real, err := d.Device.AllocDomain()
	return &refusingDomain{real, d}, err
}

func (d *refusingDomain) CreateQueuePair(c provider.QueuePairConfig) (provider.QueuePair, error) {
	real, err := d.ProtectionDomain.CreateQueuePair(c)
	return &refusingPair{real, d.of}, err
}

func (p *refusingPair) PostSend(list []provider.SendRequest) (int, error) {
	if p.of.shut && p.Number() != p.of.spared {
		n, _ := p.QueuePair.PostSend(list[:1])
		return n, errRefused
	}
	return p.QueuePair.PostSend(list)
}

func (p *refusingPair) PostReceive(list []provider.ReceiveRequest) (int, error) {
	if p.of.shut {
		n, _ := p.QueuePair.PostReceive(list[:1])
		return n, errRefused
	}
	return p.QueuePair.PostReceive(list)
}

func (p *refusingPair) Modify(c provider.Change) error {
	if p.of.shut {
		return errRefused
	}
	return p.QueuePair.Modify(c)
}

// TestRefused: what a provider does not take, the program is told was not taken, and may try again.
func TestRefused(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	soft, err := soft.NewFabric(1, soft.Faults{}).Open("")
	check(err)
	defer func() { check(soft.Close()) }()
	real := &refusing{Device: soft}
	d := NewDevice(0, real)
	domain, err := d.NewDomain()
	check(err)
	queue, err := d.NewQueue(16)
	check(err)
	pair, err := d.NewPair(domain, PairConfig{Send: queue, Receive: queue, SendDepth: 4, ReceiveDepth: 4})
	check(err)
	self, err := d.Pair(pair)
	check(err)

	real.shut = true
	if err := d.Connect(pair, 0, self); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	real.shut = false
	check(d.Connect(pair, 0, self))

	real.shut = true
	if n, err := d.Receive(pair, make([]Receive, 3)); n != 1 || !errors.Is(err, errRefused) {
		t.Errorf("%d of 3 receives were taken: %v", n, err)
	}
	if n, err := d.Send(pair, make([]Request, 3)); n != 1 || !errors.Is(err, errRefused) {
		t.Errorf("%d of 3 sends were taken: %v", n, err)
	}
	real.shut = false
	if n, err := d.Send(pair, make([]Request, 3)); n != 3 || err != nil {
		t.Errorf("%d of 3 sends were taken: %v", n, err)
	}

	two := [2]ID{}
	for i := range two {
		two[i], err = d.NewPair(domain, PairConfig{Send: queue, Receive: queue, SendDepth: 4, ReceiveDepth: 4})
		check(err)
		self, err = d.Pair(two[i])
		check(err)
		check(d.Connect(two[i], 0, self))
	}
	if _, err := d.Receive(two[1], make([]Receive, 2)); err != nil {
		t.Fatal(err)
	}
	real.shut, real.spared = true, d.pairs[two[1]].Number()
	for _, id := range two {
		if _, err := d.Machine.Send(id, []Request{{Flags: provider.Signalled}, {Flags: provider.Signalled}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.run(); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	real.shut = false
	over := 0
	testenv.Until(t, func() string {
		var got [8]Completion
		n, err := d.Poll(queue, got[:])
		check(err)
		for _, c := range got[:n] {
			if c.Pair == two[1] {
				over++
			}
		}
		if over < 4 {
			return fmt.Sprintf("%d of 4 requests of a pair are over, after another one has refused", over)
		}
		return ""
	})

	check(d.Modify(two[1], provider.Failed, 0, PeerPair{}))
	if err := d.Connect(two[1], 0, self); !errors.Is(err, provider.ErrState) {
		t.Errorf("a pair that has failed was connected: %v", err)
	}
}
