package devices

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// arrays is how many arrays a program has on each device.
const arrays = 2

// rank is a rank: its memory, and what is outside of it.
type rank struct {
	w      *world
	n      int
	s      *station
	alive  bool
	stands bool // it is restored, and not let go
	gate   uint32
	asked  bool // its gate is closed, and it has not said Ready
	mem    *memory
}

// memory is what an image of the rank holds.
type memory struct {
	pc     int
	next   uint64
	rings  []*ring
	number uint64 // of the newest wish
	wishes []wish // that nobody has answered
	doing  *doing // what the program waits in
}

type wish struct {
	id uint64
	offload.Wish
}

// ring is a device of the program: the shared file, and the arrays that are on it.
type ring struct {
	id          uint64
	commands    []command // all that were put
	taken, done int
	arrays      [arrays]array
	attempt     uint32
	answers     []offload.Answer // to orders of the program
	hello       *offload.Answer
	gone        string
	file        *capture // where the program's own captures go
}

// array is an array. want is what it holds when all is done that was asked for.
type array struct {
	want, host uint64
	onHost     bool // valid there
	onDevice   bool
	made       bool // there is memory on the device
}

// command is a command in its slot.
type command struct {
	what  string
	array int
	value uint64 // of a write; of a read that is done
}

func (c *command) carryOut(memory map[int]uint64) {
	switch c.what {
	case "alloc":
		memory[c.array] = 0
	case "write":
		memory[c.array] = c.value
	case "read":
		c.value = memory[c.array]
	case "run":
		memory[c.array] = mix(memory[c.array])
	}
}

// mix is the kernel.
func mix(v uint64) uint64 { return (v^v>>29)*0xbf58476d1ce4e5b9 + 0x9e3779b97f4a7c15 }

func newMemory() *memory { return &memory{next: 1} }

func (m *memory) clone() *memory {
	c := *m
	c.rings = nil
	for _, r := range m.rings {
		n := *r
		n.commands = append([]command(nil), r.commands...)
		n.answers = append([]offload.Answer(nil), r.answers...)
		c.rings = append(c.rings, &n)
	}
	c.wishes = append([]wish(nil), m.wishes...)
	if m.doing != nil {
		d := *m.doing
		c.doing = &d
	}
	return &c
}

func (m *memory) ring(id uint64) *ring {
	for _, r := range m.rings {
		if r.id == id {
			return r
		}
	}
	return nil
}

// put puts a command, and returns its ticket.
func (r *ring) put(what string, array int, value uint64) int {
	r.commands = append(r.commands, command{what, array, value})
	return len(r.commands)
}

// run puts a kernel, and before it what it needs.
func (r *ring) run(n int) {
	a := &r.arrays[n]
	if !a.made {
		a.made = true
		r.put("alloc", n, 0)
	}
	if !a.onDevice {
		r.put("write", n, a.host)
	}
	r.put("run", n, 0)
	a.onHost, a.onDevice, a.want = false, true, mix(a.want)
}

// valid makes stale on the device what is valid at the host, and returns it.
func (r *ring) valid() (skip []uint64) {
	if r.done < len(r.commands) {
		return nil
	}
	for n := range r.arrays {
		if a := &r.arrays[n]; a.made && a.onHost {
			a.onDevice = false
			skip = append(skip, uint64(n))
		}
	}
	return skip
}

// check compares an array at the host with what it has to be.
func (r *rank) check(id uint64, n int, a *array) {
	if a.host != a.want {
		r.w.fault("rank %d: array %d of device %d is %x at the host, %x is right", r.n, n, id, a.host, a.want)
	}
}

// choices are what the rank can do next.
func (r *rank) choices(add func(int, func())) {
	if !r.alive || r.stands {
		return
	}
	if r.asked {
		add(2, func() {
			r.asked = false
			r.s.up.send(frame{kind: ready, attempt: r.gate})
		})
	}
	if d := r.mem.doing; d != nil {
		if r.mem.can(d) {
			add(3, func() { r.goOn(d) })
		}
	} else if r.mem.pc < r.w.ops || len(r.mem.rings) > 0 {
		add(max(1, 6-r.w.slow), r.next)
	}
}

// hear takes a frame of the agent.
func (r *rank) hear(m any) {
	if !r.alive {
		return
	}
	f := m.(frame)
	switch f.kind {
	case toClose:
		r.gate, r.asked = f.attempt, true
	case toOpen, toRevert:
		r.asked = false
		if r.stands {
			r.stands = false
			if !r.w.breaks(wishesForgotten) {
				for _, w := range r.mem.wishes {
					r.s.up.send(frame{kind: wished, id: w.id, wish: w.Wish})
				}
			}
		}
	case news:
		r.news(f)
	}
}

// news takes news of a process, as internal/rank/job does.
func (r *rank) news(f frame) {
	m, n := r.mem, f.news
	left := m.wishes[:0:0]
	for _, w := range m.wishes {
		settled := w.id == f.id && (n.Gone != "" || n.Answer != nil &&
			(w.Start != nil && n.Answer.Op == offload.Hello || w.Order != nil && n.Answer.Op != offload.Hello && w.Order.Attempt == n.Answer.Attempt))
		if !settled {
			left = append(left, w)
		}
	}
	m.wishes = left
	ring := m.ring(f.id)
	if ring == nil {
		return
	}
	switch {
	case n.Answer != nil && n.Answer.Op == offload.Hello:
		ring.hello = n.Answer
	case n.Answer != nil:
		ring.answers = append(ring.answers, *n.Answer)
	case n.Gone != "":
		ring.gone = n.Gone
		if d := m.doing; d == nil || d.ring != f.id || !d.expects(ring) {
			r.lost(ring)
		}
	case n.Round != 0:
		r.wish(f.id, offload.Wish{Valid: &offload.Valid{Round: n.Round, Memories: ring.valid()}}, false)
	}
}

// wish asks the agent for something.
func (r *rank) wish(id uint64, w offload.Wish, keep bool) {
	r.mem.number++
	w.Number = r.mem.number
	if keep {
		r.mem.wishes = append(r.mem.wishes, wish{id, w})
	}
	r.s.up.send(frame{kind: wished, id: id, wish: w})
}

// order gives an order of the program's own.
func (r *rank) order(ring *ring, o offload.Order) {
	ring.attempt++
	o.Attempt = ring.attempt
	r.wish(ring.id, offload.Wish{Order: &o}, true)
}

// lost is called when a device has died. The program ends, or goes on without it.
func (r *rank) lost(ring *ring) {
	r.w.seen.Lost++
	if !r.w.goesOn {
		r.exit(fmt.Sprintf("device %d: %s", ring.id, ring.gone))
		return
	}
	r.forget(ring)
	if d := r.mem.doing; d != nil && d.ring == ring.id {
		r.mem.doing = nil
	}
	r.wish(ring.id, offload.Wish{End: true}, true) // it closes the device
}

func (r *rank) forget(gone *ring) {
	r.mem.rings = slices.DeleteFunc(r.mem.rings, func(q *ring) bool { return q == gone })
}

// exit ends the rank.
func (r *rank) exit(why string) {
	r.w.say("rank %d ends: %s", r.n, why)
	r.alive = false
	r.s.up.send(eof{why})
}

// of is the chance of the program, which is the same in each life.
func (r *rank) of() *rand.Rand {
	return rand.New(rand.NewPCG(r.w.seed, uint64(r.n)<<32|uint64(r.mem.pc)))
}
