// Package e2e holds the tests that start real ranks with the real command:
// checkpoints, kills, restarts, damaged storage, other architectures.
//
//	nodes             jobs on several nodes of a lab (internal/testing/nodelab) that are lost in all ways
//	subject           the program that most tests run
//	confine, seccomp  programs that the kernel denies something to
package e2e
