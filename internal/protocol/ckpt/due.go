package ckpt

import "github.com/gorun-mpi/gorun/internal/protocol/oob"

// With -ckpt-points ranks stop at every N-th Point, so that they can be imaged there:
//
//	rank                        head
//	 Due n ----------------->         the first for n: an attempt begins, if none runs and nobody holds
//	        <----------------- Prepare    a rank that stands at n has not passed it: all stop at n
//	        ...                       the attempt ends, and with it the stand
//	 Due n ----------------->         no attempt is about to stop it there
//	        <----------------- Pass n     it goes on at once
//
// As with checkpoints at intervals of time, a due checkpoint is skipped while another is taken or
// written. While checkpoints are held it is postponed until the release; no rank stands meanwhile,
// as the holder may wait for it.
type due struct {
	point    uint64 // the latest Point for which an attempt was wanted
	standing []int  // ranks that stand at one, for Pass
	at       []uint64
}

// OwnRequest is the ID of the requests that the machine makes itself, for due Points.
const OwnRequest = 0

// isDue takes a rank's report that it stands at Point n.
func (h *Head) isDue(rank int, n uint64) {
	d := &h.due
	d.standing, d.at = append(d.standing, rank), append(d.at, n)
	if n <= d.point {
		return
	}
	d.point = n
	for _, w := range h.queue {
		if w.ID == OwnRequest {
			return // put off before
		}
	}
	if h.run == nil && h.end == "" {
		h.request(Request{ID: OwnRequest, Mode: oob.ModeSelf, Codec: h.cfg.Codec, Patient: true})
	}
}

// pass lets ranks go on if no attempt is about to stop them where they stand.
func (h *Head) pass() {
	d := &h.due
	if !h.up || len(d.standing) == 0 {
		return
	}
	if h.run == nil || h.run.phase > phaseTarget {
		for i, rank := range d.standing {
			h.tell(rank, oob.Msg{Kind: oob.Pass, A: d.at[i]})
		}
	}
	d.standing, d.at = nil, nil
}
