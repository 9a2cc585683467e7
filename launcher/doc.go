// Package launcher starts a job, keeps it, checkpoints it and starts it again.
//
//	gorun (head) ── control.sock ── gorun checkpoint, ps, status, kill
//	  │  one event loop: every decision is made here
//	  ├─ stream ─ agent 0 (own process, own group)
//	  │             ├─ socket, pipes ─ rank 0 (own group)
//	  │             └─ socket, pipes ─ rank 1
//	  └─ stream ─ agent 1
//	                ├─ ...
//
// The head is the process that the user started. It starts agents through a
// resource manager (a Manager; launcher/local starts them on this machine), and
// each agent is the parent of its ranks: it starts them, passes frames of the
// out-of-band channel on, collects their output and knows how they died.
// Everything between head and agents, output and standard input included, is
// frames of package oob on one stream.
//
// # Who ends whom
//
// A rank dies: its agent kills what is left of the rank's process group, reaps
// it and tells the head, which ends the job or starts it again from the newest
// snapshot. The head dies, in whatever way: every agent sees the end of its
// stream, kills its ranks' groups, reaps, removes the job's control folder and
// leaves. An agent dies: the kernel kills its ranks (parent-death signal), and
// the head, a subreaper, gets their bodies and what is left of their groups.
//
// # One incarnation
//
//	agents greeted -> ranks spawned -> addresses collected -> peers sent
//	  -> reach collected -> routes sent (package wireup)
//	  -> all up -> running -> finalised -> all exited
//
// A restart is another incarnation: another random id and secret. A program
// that never speaks MPI goes straight from spawned to exited.
//
// # Images of whole processes
//
// A portable image a rank makes itself. One of a whole process its agent makes,
// with an Imager: it takes the head's order to capture for itself, and says to
// the head what the rank would say.
//
//	head            agent                                   rank
//	 Capture  --->  the stream to the rank is held
//	                stop, record, copy, let go on           (stands still for milliseconds)
//	          <---  Captured
//	 Open     --->  passed on, and writing begins  ------>  gate open
//	          <---  Progress ... Written
//	 Commit   --->  the next image may build on this one
//
// The copies are children of the agent, stopped and traced, and end with it. A
// rank's own end is seen by a pidfd: an agent that traces must not wait for just
// any child. Few ranks are written at a time, and a rank that changes its memory
// faster than the disk takes it is made to wait before the two need twice as much.
//
// At a restart the agent makes the processes from their images. Each gets, behind
// the bytes it had not read when it was imaged, a second Start: that tells it
// that it lives again. From its greeting on all goes as with a fresh rank; what it
// was about to say in its former life is dropped.
package launcher
