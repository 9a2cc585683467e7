// Package virtualtest takes checkpoints of package virtual in mid-flight. A few ranks of one process send, write and read at random, by a seed: with and without
// completions, inline and from several segments, to receives of a pair or of a shared queue, posted early or late. Again and again they stop, and go on with the device
// they have, with another one, or from an image with another one. Each message has to come once, in order and with its bytes; each completion once and in order.
package virtualtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// Options say what is done.
type Options struct {
	Seed        uint64
	Ranks       int
	Size        int // of the longest message
	Checkpoints int
	Between     int // steps between checkpoints, about
	// Open opens devices for all ranks in a life: all of one kind. The first is 0.
	Open func(life int) ([]provider.Device, error)
	// Abandon has devices of a life before abandoned instead of closed: as in a restored process. What they had is lost to this one.
	Abandon bool
}

const slots = 16 // of each kind of buffers, and depth of queues

// area is a kind of buffers: all areas of a rank are one region.
type area int

const (
	outgoing area = iota // a request's bytes
	source               // of a Write
	incoming             // a receive's
	written              // the peer's writes
	fetched              // Reads
	constant             // what peers read
	areas
)

type world struct {
	Options
	t     testing.TB
	rng   *rand.Rand
	ranks []*rank
	life  int
}

// rank is one rank: what a program has, and its device.
type rank struct {
	*world
	id                            int
	dev                           *virtual.Device
	domain, queue, shared, region virtual.ID
	memory                        []byte
	links                         []*link // by peer; nil: itself
	free                          []int   // buffers of the shared queue
	remote                        virtual.RemoteRegion
}

// link is a rank's side of a connection.
type link struct {
	of       *rank
	peer     int
	pair     virtual.ID
	posted   uint64    // requests
	over     uint64    // requests known to be over
	promised []promise // completions to come
	messages []message // to the peer that it has not received
	sent     uint64    // messages
	received uint64    // messages of the peer
	free     []int     // receive buffers
}

// promise is a completion to come.
type promise struct {
	id     uint64
	opcode provider.Opcode
	bytes  int
	from   int // a Read: of the peer's constants
}

// message is one that the peer will receive.
type message struct {
	opcode provider.Opcode // that its completion will have
	n      int
	write  int // bytes written before, to the slot of its number; -1: none
	imm    uint32
	hasImm bool
}

// Run plays.
func Run(t testing.TB, o Options) {
	t.Helper()
	w := &world{Options: o, t: t, rng: rand.New(rand.NewPCG(o.Seed, 0x71a7))}
	w.open()
	for taken := 0; ; {
		for range 1 + w.rng.IntN(2*o.Between) {
			w.step()
		}
		if taken == o.Checkpoints {
			break
		}
		w.checkpoint()
		taken++
	}
	w.finish()
	for _, r := range w.ranks {
		w.check(r.dev.Real().Close())
	}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.Seed, w.life, err)
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, life %d: %s", w.Seed, w.life, fmt.Sprintf(format, args...))
}

// open makes all ranks and connects them.
func (w *world) open() {
	devices, err := w.Open(0)
	w.check(err)
	for id := range w.Ranks {
		r := &rank{world: w, id: id, dev: virtual.NewDevice(id, devices[id]), links: make([]*link, w.Ranks)}
		w.ranks = append(w.ranks, r)
		r.open()
	}
	for _, r := range w.ranks {
		for p, l := range r.links {
			if l == nil {
				continue
			}
			tell, err := w.ranks[p].dev.Pair(w.ranks[p].links[r.id].pair)
			w.check(err)
			w.check(r.dev.Connect(l.pair, provider.RemoteRead|provider.RemoteWrite, tell))
		}
	}
}

func (r *rank) open() {
	w := r.world
	var err error
	r.domain, err = r.dev.NewDomain()
	w.check(err)
	r.queue, err = r.dev.NewQueue(4 * slots * w.Ranks)
	w.check(err)
	r.memory = make([]byte, int(areas)*w.Ranks*slots*w.Size)
	for p := range w.Ranks {
		for s := range slots {
			fill(r.buffer(constant, p, s, w.Size), r.id, p, uint64(s))
		}
	}
	r.region, err = r.dev.Register(r.domain, r.memory, provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite)
	w.check(err)
	r.remote, err = r.dev.Region(r.region)
	w.check(err)
	if w.rng.IntN(2) == 0 {
		r.shared, err = r.dev.NewShared(r.domain, slots, 3)
		w.check(err)
		r.free = numbers()
	}
	for p := range w.Ranks {
		if p == r.id {
			continue
		}
		l := &link{of: r, peer: p, free: numbers()}
		c := virtual.PairConfig{Send: r.queue, Receive: r.queue, Shared: r.shared, SendDepth: slots, ReceiveDepth: slots, Segments: 3, Inline: 64}
		if r.shared != 0 {
			c.ReceiveDepth = 0
		}
		l.pair, err = r.dev.NewPair(r.domain, c)
		w.check(err)
		r.links[p] = l
	}
}

func numbers() (list []int) {
	for s := range slots {
		list = append(list, s)
	}
	return list
}

// at is where a buffer of an area for a peer begins.
func (r *rank) at(a area, peer, slot int) int { return ((int(a)*r.Ranks+peer)*slots + slot) * r.Size }

func (r *rank) buffer(a area, peer, slot, n int) []byte { return r.memory[r.at(a, peer, slot):][:n] }

// fill makes bytes that tell whose they are.
func fill(b []byte, from, to int, number uint64) {
	x := uint64(from)<<40 ^ uint64(to)<<32 ^ number*0x9e3779b97f4a7c15
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}

func (w *world) verify(b []byte, from, to int, number uint64, what string) {
	w.t.Helper()
	want := make([]byte, len(b))
	fill(want, from, to, number)
	if string(want) != string(b) {
		w.fail("%s %d of rank %d to %d: wrong bytes (of %d)", what, number, from, to, len(b))
	}
}

// step has one rank do something.
func (w *world) step() {
	r := w.ranks[w.rng.IntN(w.Ranks)]
	l := r.links[(r.id+1+w.rng.IntN(w.Ranks-1))%w.Ranks]
	switch w.rng.IntN(4) {
	case 0, 1:
		l.request()
	case 2:
		l.receive()
	}
	r.poll()
}

// finish ends all that is under way.
func (w *world) finish() {
	w.until("the end", func() bool {
		over := true
		for _, r := range w.ranks {
			for _, l := range r.links {
				if l == nil {
					continue
				}
				l.receive()
				over = over && len(l.promised) == 0 && len(l.messages) == 0
			}
			r.poll()
		}
		return over
	})
}

func (w *world) until(what string, over func() bool) {
	w.t.Helper()
	for begin := time.Now(); !over(); {
		if time.Since(begin) > 2*time.Minute {
			w.fail("never: %s", what)
		}
	}
}
