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
//	  -> all up -> running -> finalised -> all exited
//
// A restart is another incarnation: another random id and secret. A program
// that never speaks MPI goes straight from spawned to exited.
package launcher
