// Package keeper is the process that gorun has on every node of a job except the head's own: one
// for the whole job. It starts the agents of each life there, holds the node's lease, and ends and
// reaps all that an agent leaves.
//
// A manager starts it (package launcher) and gives it a ticket, on standard input. It calls home
// (package rendezvous) and then speaks frames of package oob, over the connection that it has made:
//
//	head                          keeper                          agent
//	       <---  Hello (wire.NodeInfo)
//	Hello (wire.Terms)  --->
//	       <---  Renew a          every beat, see package lease
//	Grant a  --->                 kernel timer set     Grant  ---> kernel timer set
//	Provide  --->                 looks for the program, by digest
//	       <---  Fetch            if it is not there, into a folder of its own
//	Piece    --->
//	       <---  Provided
//	Begin 7  --->                 starts agent 7       Begin  ---> with its ticket: it calls home
//	       <---  Begun 7
//	       <---  Remark 7         what the agent prints on standard error
//	Folder 0 --->                 a folder of local images
//	Files    <-->                 what is read there, see package remote
//	Listen   --->                 opens its listener: other nodes read there, too
//	       <---  Listen           its key, see package listener
//	End 7    --->                 kills it
//	       <---  Ended 7          nothing of it is left, whatever became of it
//	KillAll (goodbye)  --->       leaves; A 0: the job has ended well
//	       <---  Leaving          a signal has told it to leave: the head is to use the node no more
//	       <---  Left             all is ended, which is as good as the end of the lease
//
// Agents are its children, with a socket pair as descriptor 3. It is a subreaper, so it inherits
// the children that dead agents leave: it kills and reaps them before it says Ended. The frames of
// ranks do not pass it: each agent has its own connection home.
//
// # When it leaves
//
// At the head's goodbye, when the connection home ends, on SIGTERM, SIGINT or SIGHUP, and half a
// second before its lease ends. In all cases it first ends its agents and the processes that they
// have left, and removes the folder of programs. If it is killed, its agents see the end of their
// socket and leave likewise, each with its own ranks, and remove the folder. If it can do nothing
// (stopped, frozen) the kernel's timer kills it when the lease ends, and each agent by a timer of
// its own. Processes that ranks have started and given another parent then run on: no process is
// left to end them.
package keeper
