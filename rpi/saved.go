package rpi

import (
	"fmt"
	"slices"
)

// Saved returns copies of the messages that have arrived and were not received,
// in order of arrival. A message whose sender still waits for something cannot
// be saved: its announcement has arrived but not its bytes, or it is
// synchronous. That is an error which names it. So is a team of which another member
// has taken more or fewer turns than this rank, a CutError. Saved is for the closer
// of the gate.
func (e *Engine) Saved() ([]Saved, error) {
	if err := e.evenTurns(); err != nil {
		return nil, err
	}
	var all []Saved
	for _, m := range e.table.unexpected() {
		if m.h.Kind != Eager {
			return nil, fmt.Errorf("rpi: rank %d waits in a send of %d bytes (tag %d, context %#x) that was not received",
				m.src, m.h.Len, m.h.Tag, m.h.Ctx)
		}
		all = append(all, Saved{
			Ctx: m.h.Ctx, Source: m.src, Tag: m.h.Tag, Type: m.h.Type,
			Foreign: m.foreign, Data: slices.Clone(m.data),
		})
	}
	return all, nil
}

// Inject puts saved messages before all that have arrived, in their order, and
// gives those that receives already wait for to these. They are not counted as
// received. The data is copied.
func (e *Engine) Inject(all []Saved) {
	e.enter()
	defer e.leave()
	var left []*message
	for i := range all {
		m := e.restore(&all[i])
		if r := e.table.takePosted(m.h.Ctx, m.src, m.h.Tag); r != nil {
			e.deliver(r, m)
		} else {
			left = append(left, m)
		}
	}
	for _, m := range slices.Backward(left) {
		e.table.add(m, true)
		if e.blocked.probes != 0 {
			e.tellProbes(m)
		}
	}
}

func (e *Engine) restore(s *Saved) *message {
	m := e.messages.get(len(s.Data))
	copy(m.data, s.Data)
	m.h = Header{Kind: Eager, Ctx: s.Ctx, Tag: s.Tag, Type: s.Type, Len: uint64(len(s.Data))}
	m.src, m.foreign = s.Source, s.Foreign
	return m
}
