package engine

import "github.com/gorun-mpi/gorun/rpi"

// Direct copies. If a module can read and write a peer's memory, the source of a long message is
// published with the RTS and the receive's buffer with the CTS. Both sides then copy at once, in
// segments of at most MaxDirect bytes:
//
//	sender                               receiver
//	RTS(FlagDirect, Off=key)         ->
//	                                 <-  CTS(FlagDirect, Ctx=key, FlagPull)
//	writes [split, Len), Direct ...  ->  reads [0, split)
//	                                 <-  Fin(Off=how far that came)
//
// The sender sends the part that the receiver could not read, in Direct or Data frames. That
// also happens after a restart, which makes all keys void.
//
// The holder of the engine's lock makes all copies, so there are none with the gate closed. Frames
// tell what the copies have done, and the bookmarks count the frames.
//
// The sender's buffer is its caller's again after Fin, the receiver's when all bytes are there,
// and either when the peer has failed. A sender may give its message up before the CTS has
// arrived. The receiver may still read from it after that: the receive then fails, and what it
// read does not count.

// splitOf is where the receiver's part of a message ends and the sender's begins: at about half,
// so that both end at about the same time.
func splitOf(want uint64) uint64 { return want / 2 &^ 63 }

// publish makes the buffer of r known to the peer.
func (e *Engine) publish(pr *peer, r *request, buf []byte) {
	if !r.published {
		r.mine, r.published = pr.direct.Publish(pr.rank, buf)
	}
}

// unpublish ends the publication of the buffer of r.
func (e *Engine) unpublish(pr *peer, r *request) {
	if r.published && pr.direct != nil {
		pr.direct.Withdraw(pr.rank, r.mine)
	}
	r.published = false
}

// partner returns the peer of an announced message.
func (e *Engine) partner(r *request) *peer {
	if r.recv {
		return &e.peers[r.status.Source]
	}
	return &e.peers[r.peer]
}

// missing is how many bytes of an announced message may still come in frames.
func (r *request) missing() uint64 {
	if r.pulling {
		return r.want - r.moved - r.split
	}
	return r.want - r.moved
}

// pull reads the next segment of a message, and reports whether there was one.
func (e *Engine) pull(pr *peer) bool {
	r := pr.pulls.head
	if r == nil {
		return false
	}
	end := min(r.pulled+rpi.MaxDirect, r.split)
	ok := pr.reader != nil && pr.reader.Read(pr.rank, r.theirs, r.pulled, r.buf[r.pulled:end])
	if ok {
		r.pulled = end
	}
	if !ok || end == r.split {
		e.endPull(pr, r)
	}
	return true
}

// endPull tells the sender how far the reading came; the rest is to be sent.
func (e *Engine) endPull(pr *peer, r *request) {
	pr.pulls.remove(r)
	r.pulling = false
	e.respond(pr, reply{kind: rpi.Fin, req: r.peerReq, off: r.pulled})
	e.landed(r, r.pulled)
}

// finished acts upon a Fin.
func (e *Engine) finished(pr *peer, h *rpi.Header) {
	r := e.lookup(h.Req)
	if r == nil || !r.pulling || r.recv || int(r.peer) != pr.rank || h.Off > r.split {
		return // given up since
	}
	r.pulling = false
	e.unpublish(pr, r)
	r.pulled, r.left = h.Off, h.Off < r.split
	if r.phase == phaseSent && r.left {
		r.phase = phaseStream
		pr.streams.push(r)
		e.nextRange(pr, r)
		e.enlist(pr)
	}
	e.settleSend(r)
}

// nextRange is called when the frames of a send have come to their end.
func (e *Engine) nextRange(pr *peer, r *request) {
	if r.left {
		r.left = false
		r.moved, r.written, r.end = r.pulled, r.pulled, r.split
		return
	}
	pr.streams.remove(r)
	r.phase = phaseSent
	e.settleSend(r)
}

// forgetDirect makes all published buffers void, here and at the peers, as the process was
// restarted. The part that was not read before will be sent.
func (e *Engine) forgetDirect() {
	for _, r := range e.requests {
		if !r.long {
			continue
		}
		r.published, r.direct = false, false
		if r.recv && r.pulling {
			e.endPull(e.partner(r), r)
		}
	}
	for _, m := range e.table.unexpected() {
		m.h.Flags &^= rpi.FlagDirect
	}
	for m := e.taken.head; m != nil; m = m.next {
		m.h.Flags &^= rpi.FlagDirect
	}
}
