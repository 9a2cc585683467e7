// Package wireup lets the ranks of a job agree which transport connects which of them. It is the
// head's part, and pure logic. A rank's part is in package internal/rank/job.
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
// Of a transport within a node, ranks are told the addresses of their own node. Of one between
// nodes they are told all addresses, as long as these are short (WholeBytes). In larger jobs ranks
// and head would have to hold and move as many addresses as there are pairs of a rank and a node.
// So a transport that can ask (rpi.Asker) is only told which ranks there are. An answer to an agent
// serves all its ranks. Addresses belong to one life: a restart begins with Address, and forgets
// the earlier ones.
//
// Two ranks use the first transport, by preference, by which each reaches the other. Sometimes only one of them
// sees a failure: it must not map the other's memory, for example. Then the other is told, and forgoes the
// transport for this peer. If the two chose by themselves, they could differ.
//
// The head keeps what a rank reaches as a row of runs of ranks with one reason, and each row once.
// Ranks of one node have the same row, because a transport that joins the node ends there. So its
// state grows with ranks and nodes, not with pairs of ranks, and it decides for rows and not for
// pairs. Only exceptions cost more: a rank whose reach is like no other's has a row of its own.
//
// Ranks of a job on one node open the transport that they prefer. They open others only if that one
// does not join all. An unneeded transport costs nothing.
package wireup
