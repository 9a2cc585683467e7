// Package rpi is the message engine of one rank and the interface of the
// transports under it (request progression interface, as LAM/MPI called it).
// The engine knows of matching, of requests and of the checkpoint's gate and
// counters; a Module only moves frames, in order, between this rank and each
// peer. See Header for the frames and Module for who owns what.
//
// # Lock and gate
//
// All of a rank's engine is under one lock, and the gate of a checkpoint is a
// bit of the lock's word (lock.go). A caller enters by one compare-and-swap, no
// dearer than without a gate. CloseGate sets the bit and acquires the lock:
// nobody is inside then, and the byte counters, plain integers under that lock,
// are exact. Until OpenGate the closer owns the engine: Step receives as ever,
// but nothing new is offered to a module: replies that arrivals cause and
// data of announced messages stay queued and uncounted. A caller that waits in
// a call is outside the lock; it goes on with that same call afterwards.
//
// # Leader and followers
//
// No goroutine stands between a caller and the wire. Of the callers that wait
// one leads (wait.go): it polls the modules, spins briefly, then arms them and
// sleeps in the Waiter, for all. The others sleep on a channel of their own and
// are woken when what they wait for has happened. A leader that leaves wakes
// the next. While nobody waits the background goroutine leads, but only after one
// of its ticks, of a millisecond or more, without a call (background.go). Ten
// thousand goroutines in Recv so cost ten thousand sleeping goroutines and one
// thread. The only caller that waits for a request needs none of this: it polls
// (leadAlone) until it is time
// to sleep (pace.go).
//
// A leader that spins holds the lock and looks at its word after each poll:
// when somebody else wants in, or the gate is to close, it steps aside. Each
// turn of the loop is a call the runtime can preempt.
//
// # Matching
//
// Posted receives and unexpected messages stand in queues found by one hash
// table on (context, source, tag); see match.go. Matching takes the same time
// at any depth, with wildcards or without.
//
// # The life of a message
//
// Eager (up to the module's EagerLimit):
//
//	sender                        receiver
//	Send -> Module.Send(Eager)    Begin: posted receive found: payload read into its buffer
//	  Taken: done                        none: into a pooled buffer
//	  Held:  done at Sink.Sent    End:   receive complete, or message unexpected
//	  Full:  queued, done later          EagerSync: Ack (once matched) ends the send
//
// Rendezvous (longer):
//
//	RTS(Len, Req=s)           ->  matched like a message; waits unexpected if there is no receive
//	                          <-  CTS(Req=s, Off=r, Len=bytes that fit)
//	Data(Req=r, Off, Len) ... ->  straight into the receive's buffer, at most MaxData each
//	  or DirectWriter.Write, then Direct(Req=r, Off, Len), at most MaxDirect each
//	done when all is accepted     done when Len bytes are there
//
// Where the module is a DirectReader as well both sides copy at once, see
// direct.go: the receiver reads the first half itself and ends that with a Fin.
//
// s and r name requests by place and generation, so a frame for one that is
// over is recognised. A send given up before its CTS arrived answers that with
// an empty Data frame that carries FlagGone, and the receive fails.
//
// Messages of a rank to itself touch no module. Messages of any length work;
// only the pieces are bounded.
//
// # Teams
//
// Where modules have memory that peers can read in place (Boards), collectives
// need no messages: ranks are members of a team and take turns, see Team. A turn
// is waited for like a request, by whoever leads.
package rpi
