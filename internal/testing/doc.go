// Package testing documents what only tests use. It has no code.
//
//	sim          whole jobs from a seed, over the shipped engine and machines; a mutant for each rule.
//	             sim/devices does so for offload processes
//	jobtest      whole jobs in one process, over real transports, restarted again and again
//	world        ranks of package mpi in one process
//	moduletest   the tests that every transport passes
//	storetest    the tests that every store passes; s3test is an object store for them
//	nodelab      nodes of this machine that lose power or network, freeze and come back
//	guest        a virtual machine with a kernel that this machine does not run
//	transcript   files of events and actions, as in the testdata of protocols
//	exampletest  whether every public call has an Example
//	pingpong     times of package rdma between two processes
//	testenv      what the environment asks of tests; waits for conditions
package testing
