// Package system documents leaves about the operating system. It has no code. They import one another at most, and
// know nothing of jobs.
//
//	files        outfile (output files at a restart), owned (files where other users may write)
//	processes    proc, procfs, alive, subreaper
//	memory       freemem (how much is left), memcopy and endian (memory that processes share)
//	network      ifaddr (addresses that others reach), accept (accept loops)
//	limits       nofile (open files)
//	data         fifo (queues), rawstring (strings of the system within JSON and TOML)
//	checkpoints  unquiet (a process says that it must not be imaged now)
package system
