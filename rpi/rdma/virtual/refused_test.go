package virtual

import (
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
)

var errRefused = errors.New("refused")

// refusing is a device whose pairs refuse while it is shut.
type refusing struct {
	provider.Device
	shut bool
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
	if p.of.shut {
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
}
