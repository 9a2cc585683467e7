// Package benchmarks holds the programs that measure gorun, each in a folder of its own. docs/benchmarks.md
// says how to reproduce the figures there. Programs that explore the machine, and not gorun, are in lab. The
// package itself is only a test that all of them run.
package benchmarks
