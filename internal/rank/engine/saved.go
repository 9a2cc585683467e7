package engine

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/rpi"
)

// Saved returns copies of the messages that have arrived and were not received, in order of arrival.
// It is for the closer of the gate.
//
// A message whose sender still waits cannot be saved: its announcement has arrived and its bytes
// have not, or it is synchronous. Saved then returns an error that names the message. If another
// member of a team has taken more or fewer turns than this rank, it returns a CutError.
func (e *Engine) Saved() ([]Saved, error) {
	if err := e.teams.Even(func(ctx uint64) bool { return e.poisoned[ctx] != nil }); err != nil {
		return nil, err
	}
	var all []Saved
	for _, m := range e.table.unexpected() {
		if m.h.Kind != rpi.Eager {
			return nil, fmt.Errorf("rank %d waits in a send of %d bytes (tag %d, %s) that was not received",
				m.src, m.h.Len, m.h.Tag, e.on(m.h.Ctx))
		}
		all = append(all, Saved{
			Ctx: m.h.Ctx, Source: m.src, Tag: m.h.Tag, Type: m.h.Type,
			Foreign: m.foreign, Data: slices.Clone(m.data),
		})
	}
	return all, nil
}

// Inject puts saved messages before all that have arrived, in their order. A message that a receive
// already waits for goes to that receive. They are not counted as received. The data is copied.
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
		if e.table.probes != 0 {
			e.tellProbes(m)
		}
	}
}

func (e *Engine) restore(s *Saved) *message {
	m := e.messages.get(len(s.Data))
	copy(m.data, s.Data)
	m.h = rpi.Header{Kind: rpi.Eager, Ctx: s.Ctx, Tag: s.Tag, Type: s.Type, Len: uint64(len(s.Data))}
	m.src, m.foreign = s.Source, s.Foreign
	return m
}
