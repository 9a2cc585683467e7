// Package soft is a provider of RDMA queue pairs in pure Go, for machines without an adapter, for tests and for the simulator. It is
// also the reference of what package provider promises. It is slower than TCP, and not meant to be otherwise.
//
//	over UDP      between processes, of one machine or several: Provider, "soft"
//	in a Fabric   between devices of one process, by a seed: packets are lost, late, twice or overtaken, and completions late, in any order
//	              that package provider allows
//
// # Protocol
//
// Requests are cut into packets of at most an MTU, numbered by pair. The receiver takes them in
// order, drops packets out of order (go back N), and acknowledges by the number that it expects
// next. A read asks for an MTU with each packet; the answers have the numbers of their questions.
// Packets that are not acknowledged are sent again after a time that doubles. A message without a
// receive is answered by "not ready"; the next receive that is posted there makes the sender go on
// at once.
//
//	data   ->   opcode, number, first, last, immediate, address and key in memory, bytes
//	       <-   ack: next number; not ready, or a status that fails the pair
//	       <-   reply: bytes of a read
//	       <-   gone: there is no such pair, or it is Failed
//
// A packet names the pair that it is for by number and a random cookie that only its peer was told. So strangers who do not see the traffic cannot
// send to it. Nothing is encrypted.
//
// A peer that does nothing is not gone: it may compute, or stand still (Info.Manual). A pair fails
// with RetryExceeded when the peer's kernel or device reports that no process is there any more.
package soft
