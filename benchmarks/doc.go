// Package benchmarks holds the programs that measure gorun, each in a folder of
// its own; docs/benchmarks.md says how the figures there are reproduced. The
// package itself is only a test that all of them run.
package benchmarks
