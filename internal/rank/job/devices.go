package job

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// devices are the offload processes of this rank, which its agent has: an offload.Host. Requests
// without an answer are repeated in each new incarnation, which may have another agent.
type devices struct {
	j *Job

	mu     sync.Mutex
	peers  map[uint64]offload.Peer
	number uint64
	open   []openWish // not answered, in order
}

// openWish is a wish, with the process that it is about.
type openWish struct {
	id   uint64
	wish offload.Wish
}

func newDevices(j *Job) *devices { return &devices{j: j, peers: map[uint64]offload.Peer{}} }

// Start asks for a process.
func (d *devices) Start(id uint64, s offload.Start, p offload.Peer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers[id] = p
	return d.ask(id, offload.Wish{Start: &s})
}

// Order asks for an order to be passed on.
func (d *devices) Order(id uint64, o offload.Order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ask(id, offload.Wish{Order: &o})
}

// End asks for the end of a process.
func (d *devices) End(id uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ask(id, offload.Wish{End: true})
}

// ask sends a wish and keeps it until it is answered. Caller holds mu.
func (d *devices) ask(id uint64, w offload.Wish) error {
	d.number++
	w.Number = d.number
	d.open = append(d.open, openWish{id, w})
	return d.say(id, w)
}

func (d *devices) say(id uint64, w offload.Wish) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return d.j.send(oob.Msg{Kind: oob.Offload, A: id, Data: data})
}

// again repeats what was not answered in an earlier incarnation. An agent that has heard it knows it by its number.
func (d *devices) again() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		if err := d.say(o.id, o.wish); err != nil {
			return err
		}
	}
	return nil
}

// hear takes a frame of the agent. An unknown frame comes from a later gorun.
func (d *devices) hear(m *oob.Msg) {
	var n offload.News
	if json.Unmarshal(m.Data, &n) != nil {
		return
	}
	d.mu.Lock()
	p := d.peers[m.A]
	d.settle(m.A, &n)
	d.mu.Unlock()
	if p == nil {
		return
	}
	switch {
	case n.Answer != nil:
		p.Heard(*n.Answer, n.PID)
	case n.Gone != "":
		p.Gone(n.Gone)
	case n.Round != 0:
		go d.valid(m.A, n.Round, p)
	}
}

// settle forgets the wishes that news answer. Caller holds mu.
func (d *devices) settle(id uint64, n *offload.News) {
	d.open = slices.DeleteFunc(d.open, func(o openWish) bool {
		w := &o.wish
		return o.id == id && (n.Gone != "" || n.Answer != nil &&
			(w.Start != nil && n.Answer.Op == offload.Hello || w.Order != nil && n.Answer.Op != offload.Hello && w.Order.Attempt == n.Answer.Attempt))
	})
}

// valid answers which memories are valid at the host.
func (d *devices) valid(id uint64, round uint32, p offload.Peer) {
	v := &offload.Valid{Round: round, Memories: p.Valid()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	if err := d.say(id, offload.Wish{Number: d.number, Valid: v}); err != nil {
		d.j.lost(err)
	}
}
