// Package e2e holds the tests that start real ranks with the real command:
// checkpoints, kills, restarts, damaged storage, other architectures.
package e2e
