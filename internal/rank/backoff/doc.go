// Package backoff decides what a waiting rank does: look again, let another process have the CPU,
// move to another CPU, or sleep. It also decides how often the engine looks in while the program
// computes. It knows the clock and what it is told. The engine asks it and acts.
//
// # A rank that waits
//
// If every rank of the machine has a CPU, a waiting rank keeps its own: waking a sleeper takes 25
// to 50 us on an idle virtual CPU. If ranks share CPUs, a waiting rank takes its time from the
// rank that it waits for. So it gives the CPU away at once.
//
//	                          a CPU each                 shared CPUs       see
//	looks by the shortcut     512                        1                 Looks
//	then polls                64 between two looks       1                 Rest
//	                          at the clock
//	lets others have the CPU  after the first 4 us,      after each poll   Rest
//	                          then every 4 us
//	sleeps                    after 2 ms, and            after 60 yields   Rest
//	                          60 yields
//	moves to another CPU      when 4 yields in a row     every 64 turns,   neighbour,
//	                          took 3 us                  at most each      seating
//	                                                     10 ms
//
// Beside a program that is not of the job (stranger) a rank does not yield: that would give the
// stranger a whole time slice. It notices one by how long a yield took, spins for 200 us if it has a CPU
// of its own, and sleeps. It asks the system for short slices, so that it runs as soon as it is
// woken. Ranks that share CPUs do not spin there either, so they keep no CPU from one another.
//
// A rank waits for a turn of a team as for a message, with two differences where CPUs are shared.
// If only ranks on other CPUs are late, it first looks on for 2 us (Looker). Then it gives its CPU
// away up to 4 times without a poll (YieldsFirst).
//
// # A program that computes
//
// A background goroutine ticks (Ticks): every millisecond if batches are left to it, else less and
// less often, up to 64 ms. After a tick without a call it serves what arrives.
//
// # The switches
//
// Each constant of this package says what it is worth and on which machine that was measured: two
// virtual CPUs of an EPYC 7003, 9004 or 9005, or of an Intel Xeon. A switch that gains less than
// 5 % on a program or a message is removed.
package backoff
