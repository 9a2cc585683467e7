// Package wireup is how the ranks of a job agree which transport carries what
// between which of them: the head's share, pure logic. A rank's share is in
// package job.
//
//	rank                          head
//	 Address  -------------->            of the transports it has opened
//	          <--------------  Peers     everybody's, when all are there
//	 Reach    -------------->            whom it does not reach by which, and why
//	          <--------------  Routes    when all are there: whom to forgo; whether to
//	                                     open more of them and begin again with Address
//	 Up       -------------->
//
// Two ranks use the first transport, by preference, by which each reaches the
// other. A failure that only one of them sees, such as memory of the other that
// it must not map, is told to the other, which forgoes the transport for this
// peer: a choice that the two made by themselves could differ.
//
// Ranks of a job on one node open the transport that they prefer, and others
// only if that does not join everybody; one that nobody needs costs nothing.
package wireup
