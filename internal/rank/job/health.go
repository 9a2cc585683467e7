package job

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// health is the state of all ranks as reported by the head.
type health struct {
	mu      sync.Mutex
	states  []uint8       // by rank: oob.HealthGood ...; nil: all are good
	changed chan struct{} // closed when that changes
}

// Health returns the known state of all ranks, oob.HealthGood and so on by rank, or nil if all are
// good. The slice is never changed. The channel is closed when a state changes.
func (j *Job) Health() (states []uint8, changed <-chan struct{}) {
	h := &j.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.states, h.changed
}

// hear takes the head's report.
func (h *health) hear(m *oob.Msg, size int) {
	var ranks []int
	if json.Unmarshal(m.Data, &ranks) != nil || m.A > oob.HealthFailed {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make([]uint8, size)
	copy(next, h.states)
	for _, r := range ranks {
		if r >= 0 && r < size {
			next[r] = uint8(m.A)
		}
	}
	h.set(next)
}

// renew forgets all: another incarnation has begun.
func (h *health) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(nil)
}

// set is called with mu held.
func (h *health) set(states []uint8) {
	same := slices.Equal(h.states, states) || states == nil && slices.Max(h.states) == 0
	h.states = states
	if !same && h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}
