// Package tcp carries frames between ranks over TCP, one connection per pair.
//
// The descriptors are non-blocking and stay outside Go's network poller. The goroutine that calls Poll or Send,
// with the engine's lock held, reads and writes them. That saves the switch between goroutines, 2-20 us a
// message. A process that has nothing to do sleeps in Wait, on one epoll descriptor over all connections.
//
// # Addresses
//
// Ranks of one machine listen at loopback. Where the ranks are on several machines (rpi.Env.Wide), each listens once
// at all addresses of its own, and publishes those that others may reach, with their networks (package ifaddr). The
// address by which the launcher reached the machine comes first.
//
// A peer's addresses are tried one after the other until one answers as that rank: first those in the networks of
// tcp.networks, then those in a network that both are in, then the rest. An address that refuses is followed by the
// next at once, one that does not answer after some seconds. When all were tried in vain the error names each with
// what came of it.
//
// # Asking
//
// In a large job Peers leaves out most addresses. The first frame for such a peer asks for it (rpi.Env.Ask), and the
// connection begins when the answer has come (Located). So does the first question to a peer's machine, where the peer
// has connected to this rank. Restart forgets addresses, asked for or not: they are of one life.
//
// # Cut paths
//
// Two machines may be cut off from one another while all others reach both. TCP waits a quarter of
// an hour for that. So once a second the module asks the kernel about connections with something
// unacknowledged, and tells (rpi.Env.Suspect) of peers whose machine has not answered for
// tcp.suspect. The head decides what follows. A rank that is only stopped is not told of: its
// machine answers. watch.go has the rule.
//
// # Connecting
//
// A pair is connected when one side first wants to send. Until the connection is up Send answers Full. So no
// accepted frame can be lost by a failed or abandoned handshake. The handshake is mutual. Both ranks prove that
// they know the secret of the incarnation before a byte of a frame is read. No frame travels before the
// acceptor's verdict:
//
//	initiator C                                  acceptor A
//	    | ---- hello: who, to whom, incarnation, nonce ----> |
//	    | <--- verdict Go, nonce, proof of A --------------- |   or a refusal, 8 bytes
//	    | ---- proof of C ---------------------------------> |
//	    | <--- verdict Go ---------------------------------- |   or a refusal
//	    | <=================== frames ====================>  |
//
// All fields are little-endian.
//
//	hello, 64 bytes                     verdict, 8 bytes
//	 0 magic "gorunTCP"                  0 magic "gRUN"
//	 8 version u16                       4 version u16
//	10 byte order u8 (1 little, 2 big)   6 byte order u8
//	11 - u8                              7 code u8
//	12 from u32, 16 to u32              answer, after the first verdict Go
//	20 size of the job u32               0 nonce [32]
//	24 incarnation u64                  32 proof [32]
//	32 nonce [32]                       proof of C: [32]
//
//	proof = HMAC-SHA256(secret, label of the side || hello || nonce of A)
//
// If two ranks connect to each other at once, the connection begun by the lower rank wins. The acceptor decides
// when it has verified the proof. The lower rank answers Yield while it has an attempt of its own. The higher
// one accepts, and drops its own attempt. The lower rank accepts only while it has no attempt, and begins none
// once it has accepted. So exactly one connection survives.
//
// An initiator may give up an attempt only until it has sent its proof. From then on the acceptor alone
// decides, by a verdict or by closing. Quiesce relies on this. It tears down attempts before the proof, and
// tells callers not yet accepted Later. The peer decides the rest, at its own Quiesce at the latest.
//
// A stranger costs a descriptor with a deadline. Their number is limited. Beyond the limit the oldest silent
// one makes room.
//
// # Frames
//
// After the handshake both directions carry nothing but frames, back to back:
// a header of rpi.HeaderSize bytes (drawn at rpi.Header), and its payload.
//
//	| header 48 | payload h.PayloadLen() | header 48 | payload | ...
//
// Small frames are copied into a buffer of the connection and leave in one write, alone or batched. Large ones
// are written from the user's memory, and read into it. An undecodable header ends the connection.
package tcp
