// Package virtual stands between programs and adapters with queue pairs, so that requests under way
// when an image was taken go on in another process, over another adapter or another kind of
// provider. It follows J. Cao, G. Kerr, K. Arya and G. Cooperman, Transparent Checkpoint-Restart
// over InfiniBand (HPDC 2014), and counts where the paper sleeps.
//
// A Machine is the layer as a pure state machine: calls, completions and what peers tell go in, Actions for the provider come out.
// A Device carries actions out. It is what programs and transports use.
//
// # Names
//
// A program never sees a real handle, number or key. An ID is rank, kind and count. Counts only
// rise and are part of the image, so IDs are unique from the start, also after a restart of a
// restart. Peers are told PeerPair and RemoteRegion. These have the real address and key as well,
// and the life in which they were so. After a restart each rank publishes a Book of what its IDs
// are now. Objects in no book were closed before. A key is valid for peers whose pair is of the
// region's domain.
//
// # Log
//
// Each request that was posted is in the log of its queue until it is known to be over: what it does, where its bytes are
// (region and offset; for inline requests the bytes themselves), its flags and whether a completion will come. Completions of a send queue come in
// order. So one strikes all requests before it, and only unsignalled ones are struck without a completion.
//
// # A checkpoint
//
//	Quiesce             nothing is posted any more. Real completions go to the private list
//	Counts <-> Tell     each pair tells its peer how many messages it has posted, and then how many it has received
//	Quiet               when nothing will arrive any more
//	Continue, or Restart, Book <-> Learn, Resume
//
// A message is what takes a receive: Send, SendImmediate, WriteImmediate. Messages of a pair arrive in order, so the count of received ones
// says which. The receiver's count is final when it equals what the sender has posted, or when no receive is posted:
// then nothing more can arrive before the gate opens. The sender then knows of each request:
//
//	at or before the last received message    it is over. It is never posted again; a Read is, for its bytes may be missing
//	after it                                  it has not arrived. It stays in the log
//
// If all was received, the sender waits for all completions. Unsignalled requests at the end are closed by a marker, a signalled empty Write, for which each send queue has
// one slot more than the program asked for. Otherwise it waits for the completions up to the first message that finds no receive.
//
// Reads and Writes that are not known to be over may have happened. Repeating them does no harm:
// their buffers are the device's until their completion, and no later message has told the peer of
// them.
//
// After Continue and after a restart, polls are served from the private list first. Continue posts nothing. Resume posts
// all that the log has, in order: receives first, then the states of each pair are gone through again, then sends.
//
// # What goes wrong
//
//	pair fails in between      its requests complete with Flushed; it is settled, and Failed after a restart
//	peer dies while it drains  Quiet returns a *PeerError. The attempt is to be given up
//	region closed, posted on   ErrKey when posted. What was posted before completes with ProtectionError or RemoteAccess
//	memory unmapped            its region is void after a restart, as if closed
//	peer's pair closed         RetryExceeded after a restart, as from a device that does not answer
package virtual
