// Package rdma is the transport over queue pairs: of an adapter, of a library that acts like one,
// or in software. It speaks to them through rpi/rdma/virtual, so its connections go on when the
// ranks go on as other processes, over another adapter or another kind of provider.
// rpi/rdma/provider says what a provider is. Package soft, which is always there, is one in pure Go
// over UDP: it is slower than rpi/tcp, so it is used only on request.
//
//	rank                                              rank
//	  engine                                            engine
//	    Module: frames, credits, rendezvous               Module
//	      virtual.Device: IDs, log, counts                  virtual.Device
//	        provider.Device  <== queue pair ==>               provider.Device
//	    notes (UDP)          <-- addresses, counts -->    notes
//
// # Frames
//
// All messages of the queue pairs are sends. They take receives of one queue, which all pairs of a rank share, and complete in
// one completion queue. A frame that fits in a slot (rdma.slot) is copied into a slot of the connection, which is registered once, and sent from there, or
// inline if it is short. It arrives in a buffer of the receiver, which is registered once, too. For a longer frame
// the payload is registered for as long as it takes, and its key is announced:
//
//	sender                               receiver
//	Announce(frame's header, key)   ->   Sink.Begin: where the payload goes
//	                                     RDMA read into that
//	                                <-   Done: the payload is the engine's again
//
// Registrations are not kept for later messages: nothing in Go tells when memory is unmapped that a program has mapped itself. Where memory cannot be
// registered, the payload goes through a buffer of the module (stage).
//
// Several requests are posted with one doorbell where the engine says that more will follow. Only each few are signalled, and
// free the slots of those before them.
//
// # Flow
//
// A sender has as many credits as the receiver has posted buffers for it (rdma.depth). Each frame or announcement takes one. Credits come back with messages
// of the other direction, or alone when half of them are due. Done and lone credits take none. There are fewer of them, and
// the shared queue has buffers to spare. If it runs out all the same, the device sends again (receiver not ready).
//
// A connection is made when a rank first sends to a peer. It then takes rdma.depth slots to send from, and one and a half times as many
// to receive into, of which all connections together have at most rdma.receives.
//
// # Notes
//
// Further information goes in datagrams of its own, with an HMAC under the incarnation's secret.
// Each note says everything: which pair this rank has for the peer, whether it is connected to the
// peer's, and while a checkpoint is taken what it has counted. Notes are sent again until they are
// answered, so it does no harm if they are lost, late or doubled.
//
//	idle -> greeting         a frame is to be sent, or a note of the peer has come
//	     -> known            the peer's pair is known, and this one is connected to it
//	     -> up               the peer has said that it is known there, or a message has come
//
// # A checkpoint
//
// A connection is level when both ranks have quiesced, have nothing of theirs under way, and each
// has received as many messages as the other has posted. A rank that has quiesced posts only
// replies to frames of the peer, so this lasts. Quiet freezes the layer when all connections are
// level, and makes it close unsignalled requests. Notes name the attempt by a random number of
// each side, and are not taken for another one.
//
// Restart opens a device, which need not be of the same kind, and makes the layer recreate its
// pairs. The address that a rank then publishes has a link for each connection. Those that both
// ends have published go on, with their credits. All others are recreated when they are needed. If
// the limits of the new device are lower than those of the old one, all are.
package rdma
