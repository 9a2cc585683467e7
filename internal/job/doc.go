// Package job documents the processes of a job: how one is started, kept, checkpointed and started again. It has no code. Its rooms import
// downwards only:
//
//	head      one per job: drives the machine of the job's life (internal/protocol/joblife)
//	fleet     the head's nodes over all lives: their keepers, agents and leases
//	keeper    one on each node but the head's own: starts agents there, ends what they leave
//	agent     one per node: makes, images and reaps ranks
//	spec      what is to be run and how, and whether it can be
//	hosts     on which nodes the job runs, and which rank goes where
//	program   what the ranks run: found, built, kept
//	initproc  the rank of a program that knows nothing of gorun
//	bind      which CPUs each rank of a node may use
//	control   the record of a running job, and the commands that ask it
//	stdio     standard input and output of ranks, at both ends
//
// The head's snapshots are the work of internal/storage, what processes say to each other that of internal/protocol.
//
// Head and agent know nothing of each other but frames. The author of a manager, which starts
// keepers on nodes, needs package launcher alone.
//
//	gorun (head) ── control.sock ── gorun checkpoint, ps, status, kill
//	  │  one event loop: every decision is made here
//	  ├─ socket ─ agent 0 (own process, own group)
//	  │             ├─ socket, pipes ─ rank 0 (own group)
//	  │             └─ socket, pipes ─ rank 1
//	  │                                                         another node
//	  ├─ TLS ─ keeper ── socket (ticket, lease) ─┐
//	  └─ TLS ─────────────────────────────────── agent 1
//	                                              ├─ ...
//
// The head is the process that the user started. Agents on its own node are its children
// (launcher/local). On any other node a manager (launcher.Manager: launcher/ssh and others) has
// started a keeper, which starts the agents there. Each agent is the parent of its ranks. It starts
// them, passes on frames of the out-of-band channel, collects their output and knows how they died.
// All between head and agents is frames of package oob on one stream, output and standard input
// included. A job without other nodes has no keeper, no TLS and no lease.
//
// # Who ends whom
//
// A rank dies: its agent kills what is left of the rank's process group, reaps it and tells the
// head. The head ends the job, or starts it again from the newest snapshot.
//
// The head dies, in whatever way: every agent sees the end of its stream, kills its ranks' groups,
// reaps, removes the job's control folder and leaves.
//
// An agent dies: the kernel kills its ranks (parent-death signal). Its parent, the head or a keeper,
// is a subreaper: it reaps them and ends what is left of their groups.
//
// A keeper dies: its agents see the end of their sockets and leave as if the head were dead.
//
// A node falls silent: the head cannot tell its ranks to end, so they end by themselves. Keeper and
// agents hold a lease of the head, and the kernel kills them when it expires (package lease). The
// head waits for that time and a margin before it calls the agents gone, so before their ranks run
// elsewhere.
//
// The head falls silent, or the network between does: the node's side does the same. That holds for
// the head's own node, too, if the job is on several and has snapshots: the head may stand still
// while another head goes on with the job elsewhere. The agent there has a lease that the head
// renews.
//
// # Deaths
//
// With restarts left, a job goes on after a death and ends after a decision. Decisions are:
//
//   - the program calls mpi.Abort, or the function given to mpi.Run returns an error;
//   - gorun is told to end the job: by a signal, by gorun kill, by a limit of time.
//
// After a decision a restart would come to the same end. The loss of an agent is a death. So is
// every other end of a rank before it is released from Finalize: by a signal, by a panic in any
// goroutine, without Finalize, by os.Exit and so by log.Fatal. A status alone does not tell an
// answer from a crash.
//
// A restart takes the newest sound snapshot. If two lives from one snapshot end alike, by the
// ranks' own doing, the state in it may have been wrong already, so older snapshots are tried
// before it (package joblife).
//
// While restarts are left, a rank that loses a peer tells the head. It then stands, in the call that
// would have returned the error, until it is ended. So the program runs no error path for what is
// about to be undone.
//
// # One incarnation
//
//	agents greeted -> ranks spawned -> addresses collected -> peers sent
//	  -> reach collected -> routes sent (package wireup)
//	  -> all up -> running -> finalised -> all exited
//
// A restart is another incarnation: another random id and secret. A program that never speaks MPI
// goes straight from spawned to exited.
//
// # Images of whole processes
//
// A rank makes a portable image itself. Its agent makes an image of the whole process, with a
// back-end (package cr/whole). The agent obeys the head's order to capture in the rank's place, and
// says to the head what the rank would say.
//
//	head            agent                                   rank
//	 Capture  --->  the stream to the rank is held
//	                stop, record, copy, let go on           (stands still for milliseconds)
//	          <---  Captured
//	 Open     --->  passed on, and writing begins  ------>  gate open
//	          <---  Progress ... Written
//	 Commit   --->  the next image may build on this one
//
// The copies are children of the agent, stopped and traced, and end with it. The agent sees a rank's
// end by a pidfd: while it traces it must not wait for just any child. Few ranks are written at a
// time. A rank that changes its memory faster than the disk takes it is made to wait before it and
// its copy need twice as much.
//
// At a restart the agent makes the processes from their images. Each gets a second Start behind the
// bytes that it had not read when it was imaged, which tells it that it was restarted. From its
// greeting on it is treated as a fresh rank. Frames that it was about to send in its former life
// are dropped.
package job
