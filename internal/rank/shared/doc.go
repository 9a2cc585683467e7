// Package shared is what a transport through shared memory offers the engine beyond rpi.Module.
// The engine finds each offer by a type assertion:
//
//	Shortcut   short messages without a header, and without upcalls to a caller that waits
//	Open       the engine itself adds messages to the one sent last, if they are alike
//	AlikeSink  such messages are delivered together
//	Boards     memory that peers read in place, for teams (see package shmcoll)
//
// The package is not part of rpi, as its API may change with every measurement. A transport
// that offers none of this is complete.
package shared
