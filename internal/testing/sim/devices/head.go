package devices

import "github.com/gorun-mpi/gorun/internal/offload"

// phase is how far an attempt is.
type headPhase int

const (
	idle headPhase = iota
	gathering
	capturing
)

// head takes checkpoints, and ends a life when somebody has died.
type head struct {
	w       *world
	phase   headPhase
	attempt uint32
	missing []bool // those that have not answered
	pieces  []*piece
	opened  []bool
}

func (h *head) send(rank int, f frame) {
	f.rank = rank
	if f.kind != toSwap {
		f.attempt = h.attempt
	}
	h.w.ranks[rank].s.a.down.send(f)
}

func (h *head) all(f frame) {
	for n := range h.w.np {
		h.send(n, f)
	}
}

// to begins a phase in which all have to answer.
func (h *head) to(p headPhase) {
	h.phase = p
	for n := range h.missing {
		h.missing[n] = true
	}
}

func (h *head) complete() bool {
	for _, m := range h.missing {
		if m {
			return false
		}
	}
	return true
}

// choices are what the head, or a user, does.
func (h *head) choices(add func(int, func())) {
	w := h.w
	if !w.up {
		return
	}
	if h.phase == idle && w.attempts > 0 {
		add(1, func() {
			w.attempts--
			h.attempt++
			w.say("attempt %d", h.attempt)
			h.to(gathering)
			h.all(frame{kind: toClose})
		})
	}
	if h.phase != idle && w.deadlines > 0 {
		add(1, func() {
			w.deadlines--
			w.say("the deadline is over")
			h.all(frame{kind: toAsk})
			h.revert()
		})
	}
	for _, r := range w.ranks {
		for _, o := range r.s.procs {
			if r.alive && !r.s.over && r.s.m.Has(o.id) {
				h.user(o, add)
			}
		}
	}
}

// user is what users do with a device. One that is out comes back in.
func (h *head) user(o *offloader, add func(int, func())) {
	w := h.w
	out := o.stored != nil && o.cmd == nil && o.user == nil
	pending := func() bool {
		for _, m := range o.s.a.down.queue {
			if f := m.(frame); f.kind == toSwap && f.swap.id == o.id && f.rank == o.s.r.n {
				return true
			}
		}
		return false
	}
	if pending() {
		return
	}
	device := w.rng.IntN(3)
	if w.rng.IntN(4) == 0 {
		device = noDevice
	}
	if out {
		add(1, func() {
			h.send(o.s.r.n, frame{kind: toSwap, swap: swapping{id: o.id, op: offload.SwapIn, device: device}})
		})
	} else if w.users > 0 {
		op := swaps[2*w.rng.IntN(2)]
		add(1, func() {
			w.users--
			h.send(o.s.r.n, frame{kind: toSwap, swap: swapping{id: o.id, op: op, device: device}})
		})
	}
	if o.user != nil && o.late == nil && o.round == 0 && o.cmd != nil && o.cmd.hangs {
		add(1, o.limit)
	}
}

func (h *head) revert() {
	h.phase = idle
	h.w.seen.Reverted++
	h.all(frame{kind: toRevert})
}

// hear takes a frame of an agent, or its end.
func (h *head) hear(a *agent, m any) {
	w := h.w
	if e, ok := m.(eof); ok {
		w.end(e.why)
		return
	}
	f := m.(frame)
	switch {
	case f.kind == gone:
		w.end("a rank has ended")
	case f.kind == failed && !w.up:
		w.end("a rank cannot be restored: " + f.text)
	case f.kind == broughtUp:
		h.missing[f.rank] = false
		if h.complete() {
			w.up = true
			if w.mixed {
				w.fault("captures of another snapshot were restored")
			}
			h.all(frame{kind: toOpen})
		}
	case f.kind == where:
		w.seen.Named++
	case f.attempt != h.attempt || h.phase == idle: // of another attempt
	case f.kind == failed:
		h.revert()
	case f.kind == ready && h.phase == gathering:
		h.missing[f.rank] = false
		if h.complete() {
			h.to(capturing)
			h.all(frame{kind: toCapture})
		}
	case f.kind == captured && h.phase == capturing:
		h.missing[f.rank], h.pieces[f.rank] = false, f.piece
		if w.breaks(opensAlone) {
			h.send(f.rank, frame{kind: toOpen})
		}
		if h.complete() {
			h.commit()
		}
	}
}

// commit ends an attempt with a snapshot.
func (h *head) commit() {
	w := h.w
	w.seen.Commits++
	w.older, w.snapshot = w.snapshot, append([]*piece(nil), h.pieces...)
	for n, p := range w.snapshot {
		p.check(w, n)
	}
	h.phase = idle
	h.all(frame{kind: toOpen})
}

// check checks whether a piece holds what every array has to be when all is done that was asked for.
func (p *piece) check(w *world, rank int) {
	for _, r := range p.mem.rings {
		c := p.of(r.id)
		memory := map[int]uint64{}
		if c == nil && r.done > 0 && !p.mem.awaits(r.id) {
			w.fault("the snapshot lacks device %d of rank %d", r.id, rank)
			return
		}
		if c != nil {
			if c.head != r.done || r.done != r.taken {
				w.fault("rank %d: device %d was captured at %d, its ring stands at %d of %d", rank, r.id, c.head, r.done, r.taken)
			}
			memory = c.clone().memory
		}
		for _, cmd := range r.commands[r.done:] {
			cmd.carryOut(memory)
		}
		for n, a := range r.arrays {
			if a.onDevice && c != nil && memory[n] != a.want || a.onHost && a.host != a.want || !a.onDevice && !a.onHost {
				w.fault("rank %d: array %d of device %d is captured as %x, %x is right (%+v)", rank, n, r.id, memory[n], a.want, a)
			}
		}
	}
}

// awaits reports whether a wish will be repeated for a device that ends, or has ended.
func (m *memory) awaits(id uint64) bool {
	for _, w := range m.wishes {
		if w.id == id {
			return true
		}
	}
	return false
}

func (p *piece) of(id uint64) *capture {
	for _, c := range p.captures {
		if c.id == id {
			return c.what
		}
	}
	return nil
}

// mix returns the piece with a capture of another snapshot's, or nil if they stand at the same commands.
func (p *piece) mix(other *piece) *piece {
	for i, c := range p.captures {
		o := other.of(c.id)
		if o == nil || c.what == nil || o.head == c.what.head {
			continue
		}
		m := &piece{mem: p.mem, captures: append([]taken(nil), p.captures...)}
		m.captures[i].what = o
		return m
	}
	return nil
}
