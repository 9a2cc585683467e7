// Package engine is the message engine of one rank. It knows matching, requests, and the gate and
// counters of a checkpoint. Transports move its frames: see rpi.Module for who owns what, and
// rpi.Header for the frames.
//
// # Lock and gate
//
// All of a rank's engine is under one lock. The gate of a checkpoint is a bit of the lock's word
// (lock.go), so a caller enters by one compare-and-swap, as it would without a gate. CloseGate
// sets the bit and acquires the lock. Then no caller is inside, and the byte counters, plain
// integers under that lock, are exact.
//
// Until OpenGate the closer owns the engine. Step receives as ever, but offers nothing new to a
// module: replies that arrivals cause, and data of announced messages, stay queued and uncounted.
// A caller that waits in a call is outside the lock. It goes on with that same call afterwards.
//
// # Leader and followers
//
// No goroutine stands between a caller and the wire. One of the callers that wait leads (wait.go):
// it polls the modules, spins briefly, then arms them and sleeps in the Waiter, for all. The
// others sleep on channels of their own, and are woken when the event that they wait for has
// happened. A leader that leaves wakes the next. So ten thousand goroutines in Recv cost ten
// thousand sleeping goroutines and one thread.
//
// While no caller waits the background goroutine leads, but only after one of its ticks, of a
// millisecond or more, without a call (background.go). A caller that waits for a request while no
// other waits needs none of this: it polls (leadAlone) until it is time to sleep (package backoff).
//
// A leader that spins holds the lock and looks at its word after each poll. If another caller
// wants in, or the gate is to close, it steps aside. In each round of the loop the runtime can
// preempt it.
//
// # Matching
//
// Posted receives and unexpected messages stand in queues found by one hash table on (context,
// source, tag): see match.go. Matching takes the same time at any depth, with wildcards or
// without.
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
// If the module is a DirectReader as well, both sides copy at once (direct.go): the receiver reads
// the first half itself and ends that with a Fin.
//
// s and r name requests by place and generation, so a frame for a request that is over is
// recognised. A send given up before its CTS arrived answers the CTS with an empty Data frame that
// carries FlagGone, and the receive fails.
//
// Messages of a rank to itself touch no module. Messages of any length work; only the pieces are
// bounded.
//
// # Teams
//
// Where modules have memory that peers can read in place (shared.Boards), collectives need no
// messages. Ranks are members of a team and take turns: see package shmcoll. The leader waits for a
// turn as it waits for a request.
package engine
