// Package wireup lets the ranks of a job agree which transport carries what between which of them. It is the
// head's share, and pure logic. A rank's share is in package job.
//
//	rank                          head
//	 Address  -------------->            of the transports it has opened
//	          <--------------  Peers     those of the others, when all are there: a Book
//	 Reach    -------------->            whom it does not reach by which, and why
//	          <--------------  Routes    when all are there: whom to forgo; whether to
//	                                     open more of them and begin again with Address
//	 Up       -------------->
//
// then, in a large job, for a peer that it first talks to
//
//	Lookup   -------------->            its agent answers, or asks the head
//	         <--------------  Located   the addresses of that peer's node
//
// Everybody is told of a transport within a node the addresses of that node; of one between nodes all, as long as
// they are short (WholeBytes). Beyond that, ranks and head would have to hold and move as many addresses as there are
// pairs of a rank and a node. So a transport that can ask (rpi.Asker) is only told who is there. What an agent has been
// answered serves all its ranks. All of it is of one life: a restart begins with Address, and forgets what it had heard.
//
// Two ranks use the first transport, by preference, by which each reaches the other. Sometimes only one of them
// sees a failure: it must not map the other's memory, for example. Then the other is told, and forgoes the
// transport for this peer. If the two chose by themselves, they could differ.
//
// The head keeps what a rank reaches as a row of runs of ranks with one reason, and each row once. Ranks of one
// node have the same row, because a transport that joins the node ends there. So its state grows with ranks
// and nodes, not with pairs of ranks, and it decides for rows and not for pairs. Only what is odd costs more:
// a rank whose reach is like no other's has a row of its own.
//
// Ranks of a job on one node open the transport that they prefer. They open others only if that one does not
// join everybody. A transport that nobody needs costs nothing.
package wireup
