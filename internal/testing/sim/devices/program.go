package devices

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// doing is a call of the program that waits: where it has come.
type doing struct {
	what   string
	ring   uint64
	stage  int
	array  int
	ticket int
	leave  bool // a capture with which the process ends
	device int
}

func (d *doing) String() string {
	if d == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of device %d, stage %d", d.what, d.ring, d.stage)
}

// expects reports whether the call expects the end of the process.
func (d *doing) expects(r *ring) bool {
	captured := d.stage == 2 || d.stage == 1 && r.answered() != nil && r.answered().Error == ""
	return d.what == "close" && d.stage >= arrays || d.what == "move" && d.leave && captured
}

// next begins the next step of the program. At its end it closes its devices.
func (r *rank) next() {
	m, chance := r.mem, r.of()
	if m.pc >= r.w.ops {
		r.begin(&doing{what: "close", ring: m.rings[0].id})
		return
	}
	m.pc++
	if len(m.rings) == 0 || len(m.rings) < 3 && chance.IntN(8) == 0 {
		ring := &ring{id: m.next, file: nil}
		for n := range ring.arrays {
			v := uint64(chance.Int64())
			ring.arrays[n] = array{want: v, host: v, onHost: true}
		}
		m.next++
		m.rings = append(m.rings, ring)
		r.begin(&doing{what: "open", ring: ring.id})
		return
	}
	ring := m.rings[chance.IntN(len(m.rings))]
	n := chance.IntN(arrays)
	switch chance.IntN(12) {
	case 0, 1:
		r.begin(&doing{what: "host", ring: ring.id, array: n})
	case 2:
		r.begin(&doing{what: "hostW", ring: ring.id, array: n})
	case 3:
		r.begin(&doing{what: "move", ring: ring.id, leave: chance.IntN(2) == 0, device: chance.IntN(3)})
	case 4:
		if r.w.misuses {
			r.begin(&doing{what: "misuse", ring: ring.id})
		}
	case 5:
		if chance.IntN(2) == 0 {
			r.begin(&doing{what: "close", ring: ring.id})
		}
	default:
		for range 1 + chance.IntN(3) {
			ring.run(n)
		}
	}
}

// begin begins a call: what it does before it waits.
func (r *rank) begin(d *doing) {
	r.mem.doing = d
	ring := r.mem.ring(d.ring)
	switch d.what {
	case "open":
		r.wish(d.ring, offload.Wish{Start: &offload.Start{}}, true)
	case "host", "hostW":
		d.fetch(ring, d.array)
	case "close":
		d.fetch(ring, 0)
	case "move":
		r.order(ring, offload.Order{Op: offload.OrderPause})
	case "misuse":
		r.order(ring, offload.Order{Op: offload.OrderResume})
	}
}

// fetch makes an array valid at the host.
func (d *doing) fetch(ring *ring, n int) {
	d.ticket = 0
	if a := &ring.arrays[n]; !a.onHost {
		d.ticket = ring.put("read", n, 0)
	}
}

// answered is the answer to the newest order, if it has come.
func (r *ring) answered() *offload.Answer {
	for i := range r.answers {
		if r.answers[i].Attempt == r.attempt {
			return &r.answers[i]
		}
	}
	return nil
}

// can reports whether what the call waits for is there.
func (m *memory) can(d *doing) bool {
	ring := m.ring(d.ring)
	switch {
	case d.what == "open":
		return ring.hello != nil
	case d.what == "host" || d.what == "hostW" || d.what == "close" && d.stage < arrays:
		return ring.done >= d.ticket
	case d.what == "close":
		return ring.gone != ""
	case d.what == "move" && d.leave && d.stage == 2:
		return ring.gone != ""
	case d.what == "move" && d.leave && d.stage == 3:
		return ring.hello != nil
	}
	return ring.answered() != nil
}

// goOn goes on with a call whose wait is over.
func (r *rank) goOn(d *doing) {
	ring := r.mem.ring(d.ring)
	switch d.what {
	case "open":
		r.mem.doing = nil
		if ring.hello.Error != "" {
			r.exit("open: " + ring.hello.Error)
		}
	case "host", "hostW":
		r.fetched(d, ring, d.array)
		r.mem.doing = nil
		if a := &ring.arrays[d.array]; d.what == "hostW" {
			a.want = mix(a.want + 1)
			a.host, a.onDevice = a.want, false
		}
	case "close":
		r.closes(d, ring)
	case "misuse":
		r.mem.doing = nil
		if ring.answered().Error == "" {
			r.w.fault("an order to resume what runs is not refused")
		}
	case "move":
		r.moves(d, ring)
	}
}

// fetched takes an array.
func (r *rank) fetched(d *doing, ring *ring, n int) {
	a := &ring.arrays[n]
	if d.ticket > 0 {
		a.host, a.onHost = ring.commands[d.ticket-1].value, true
	}
	r.check(ring.id, n, a)
}

// closes fetches all arrays and closes the device.
func (r *rank) closes(d *doing, ring *ring) {
	if d.stage < arrays {
		r.fetched(d, ring, d.stage)
		if d.stage++; d.stage < arrays {
			d.fetch(ring, d.stage)
			return
		}
		r.wish(ring.id, offload.Wish{End: true}, true)
		return
	}
	r.forget(ring)
	r.mem.doing = nil
}

// moves pauses the device, captures it, and goes on: in the same process or in another one.
func (r *rank) moves(d *doing, ring *ring) {
	if a := ring.answered(); a != nil && a.Error != "" && d.stage < 2 {
		r.w.fault("rank %d: %v: %s", r.n, d, a.Error)
	}
	switch d.stage {
	case 0:
		r.order(ring, offload.Order{Op: offload.OrderCapture, End: d.leave, Skip: ring.valid()})
	case 1:
		ring.run(d.array) // it waits in the ring
		if !d.leave {
			r.order(ring, offload.Order{Op: offload.OrderResume})
		}
	case 2:
		if !d.leave {
			r.mem.doing = nil
			return
		}
		ring.gone, ring.hello = "", nil
		r.wish(ring.id, offload.Wish{Start: &offload.Start{Device: fmt.Sprint(d.device), Restore: "file"}}, true)
	case 3:
		if ring.hello.Error != "" {
			r.w.fault("rank %d: %v: %s", r.n, d, ring.hello.Error)
		}
		r.order(ring, offload.Order{Op: offload.OrderResume})
	case 4:
		r.mem.doing = nil
		return
	}
	d.stage++
}
