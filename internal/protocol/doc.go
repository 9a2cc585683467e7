// Package protocol documents what the processes of a job say to each other. It has no code. Most of it is pure
// logic: machines that take events and return actions, without clocks, sockets or goroutines. The simulator
// (internal/testing/sim) runs them as they are.
//
//	joblife     the life of a job: start-up, deaths, verdict, restarts, moves. It keeps the next two
//	ckpt        the checkpoint: gates, bookmarks, Points, captures, the order to commit, holds
//	wireup      which transport carries what between which ranks
//	lease       the permission of a node to act, and how the head knows that it is over
//	oob         frames of the out-of-band channel: rank, agent, keeper, head
//	wire        what head, agents and keepers put into these frames beside the machines: orders, nodes
//	rendezvous  the head's listener, which keepers and agents call with a ticket
//	listener    a keeper's listener, which other nodes of the job call
//
// How bookmarks are counted and exchanged is package bookmarks.
package protocol
