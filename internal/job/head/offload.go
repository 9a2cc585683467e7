package head

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// offloads records which offload processes a rank has, as its agent reports. A death is reported to
// the user at once: the rank's own reaction comes later, if at all.
func (inc *incarnation) offloads(m *oob.Msg) {
	if m.B != 0 {
		inc.h.swapped(m)
		return
	}
	var now []offload.Session
	if json.Unmarshal(m.Data, &now) != nil {
		return
	}
	rank := int(m.From)
	before := inc.offload[rank]
	for _, s := range now {
		if s.Error != "" && !slices.Contains(before, s) {
			inc.h.say("rank %d: %s", rank, s.Error)
		}
	}
	inc.offload[rank] = now
}

// pointless names a device that a user has swapped out. Its rank reaches no Point before the device
// is in again: the rank waits for the device, or would have to fetch from it at the Point.
func (inc *incarnation) pointless() string {
	if inc == nil { // none has begun yet
		return ""
	}
	for rank, all := range inc.offload {
		for _, s := range all {
			if s.Out {
				return fmt.Sprintf("device %s of rank %d is swapped out; gorun swap-in brings it back", s.Device, rank)
			}
		}
	}
	return ""
}

// having returns those of some ranks that have a device of that name.
func (h *head) having(device string, ranks []int) (some []int) {
	for _, rank := range ranks {
		if h.deviceOf(rank, device) != "" {
			some = append(some, rank)
		}
	}
	return some
}

// deviceOf is the ID of a rank's device of that name, "" if it has none.
func (h *head) deviceOf(rank int, name string) string {
	for _, s := range h.inc.offload[rank] {
		if offload.SameDevice(name, s.Device) {
			return s.Device
		}
	}
	return ""
}

// swapping is a user's request to the agents of some ranks.
type swapping struct {
	open  map[int32]bool // ranks whose agents have not answered
	all   offload.Swapped
	timer *time.Timer
	last  func(control.Reply)
}

// swapGrace is the time that agents have beyond the limit that a process has to finish: the
// device's memory is written and read meanwhile.
const swapGrace = 10 * time.Minute

// swap passes a user's request on to the agents of its ranks.
func (h *head) swap(q *control.Request, last func(control.Reply)) {
	ranks := q.Ranks
	if len(ranks) == 0 {
		ranks = h.everybody()
	}
	s := &swapping{open: map[int32]bool{}, last: last}
	h.asked++
	number := h.asked
	for _, rank := range ranks {
		if rank < 0 || rank >= h.opt.NP {
			last(control.Reply{Error: fmt.Sprintf("there is no rank %d, they are 0 to %d", rank, h.opt.NP-1)})
			return
		}
	}
	for _, rank := range ranks {
		r := h.job.Rank(rank)
		if r.Phase != joblife.Up && r.Phase != joblife.Final {
			s.all.Errors = append(s.all.Errors, fmt.Sprintf("rank %d is %v", rank, r.Phase))
			continue
		}
		s.open[int32(rank)] = true
		h.inc.links[r.Agent].out.Send(oob.Msg{Kind: oob.Offload, From: oob.Head, To: int32(rank), Incarnation: h.inc.id, B: number, Data: wire.JSON(q.Swap)})
	}
	h.swaps[number] = s
	s.timer = h.after(time.Duration(q.Swap.TimeoutM)*time.Millisecond+swapGrace, func() {
		for rank := range s.open {
			s.all.Errors = append(s.all.Errors, fmt.Sprintf("rank %d: its agent has not answered", rank))
		}
		h.endSwap(number)
	})
	if len(s.open) == 0 {
		h.endSwap(number)
	}
}

// swapped takes an agent's answer.
func (h *head) swapped(m *oob.Msg) {
	s := h.swaps[m.B]
	var a offload.Swapped
	if s == nil || !s.open[m.From] || json.Unmarshal(m.Data, &a) != nil {
		return
	}
	s.all.Done += a.Done
	s.all.Bytes += a.Bytes
	s.all.Errors = append(s.all.Errors, a.Errors...)
	if delete(s.open, m.From); len(s.open) == 0 {
		h.endSwap(m.B)
	}
}

// dropSwaps answers users for ranks that go on in other processes: the former processes do not
// answer any more.
func (h *head) dropSwaps(ranks []int, why string) {
	for number, s := range h.swaps {
		for _, rank := range ranks {
			if s.open[int32(rank)] {
				delete(s.open, int32(rank))
				s.all.Errors = append(s.all.Errors, fmt.Sprintf("rank %d %s meanwhile: see gorun status, and try again", rank, why))
			}
		}
		if len(s.open) == 0 {
			h.endSwap(number)
		}
	}
}

func (h *head) endSwap(number uint64) {
	s := h.swaps[number]
	if s == nil {
		return // the last answer came when the limit was over
	}
	delete(h.swaps, number)
	s.timer.Stop()
	s.last(control.Reply{Done: &control.DoneReply{Swapped: &s.all}})
}
