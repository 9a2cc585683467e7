// Package rpi is the interface of transports (request progression interface, as LAM/MPI called it). A transport
// is a Module. It moves whole frames, in order, between this rank and each peer that it reaches. It knows
// nothing of matching, of collectives or of checkpoints' decisions. Those belong to the engine, which calls the
// module. The module calls the engine through a Sink.
//
// A transport registers itself under a name (Register). mpi/modules.go links it into programs,
// internal/cli/modules.go tells gorun its parameters, and -rpi chooses it. The example of this package is a complete transport. rpi/mem, rpi/tcp and rpi/shm are those that ship.
//
// # Who calls whom
//
//	Start(Env)  -> address    opens; the launcher tells all addresses to all ranks
//	Peers(addresses)          says whom it Reaches
//	Send, Flush, Poll, Arm    under the engine's lock, by any goroutine that holds it
//	    Sink.Begin, End       a frame arrives: where its payload goes, and that it is there
//	    Sink.Deliver          the same at one go, for what is in memory already
//	    Sink.Sent, Writable   a payload is the engine's again; a peer takes frames again
//	    Sink.Down             the channel to a peer is gone
//	Quiesce, Quiet            a checkpoint: accepted frames leave, nothing new begins
//	Continue or Restart       the job goes on, in this process or in one restored from an image
//	Close
//
// Nothing blocks. A rank that has nothing to do sleeps in a Waiter. A module whose frames arrive
// without a poll has to be one: nothing else wakes the rank for it.
//
// # What a module may offer besides
//
// DirectWriter and DirectReader copy long messages from buffer to buffer.
// LocalModule is for transports within one node.
package rpi
