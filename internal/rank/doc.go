// Package rank documents what a rank is made of. It has no code. Package mpi has the calls that programs make, and
// package rpi the transports.
//
//	job         a rank's share of a job: engine, channel to the head, the driver of the checkpoint
//	engine      messages: matching, requests, the gate, who polls
//	shmcoll     collectives through memory that ranks share: boards and turns
//	shared      what a transport through shared memory offers the engine beside rpi.Module
//	coll        the table that says which algorithm a collective uses
//	schedule    the algorithms of collectives, as lists of messages and steps
//	backoff     when a waiting rank polls, yields, moves or sleeps
//	standstill  which ranks wait for each other without end
//	waitreport  what the goroutines of a rank wait for
//	release     a store that other processors see after all stores before it
//
// All state of a rank hangs off one job.Job, so a process may have several ranks.
package rank
