// Package tcp carries frames between ranks over TCP, one connection per pair.
//
// The descriptors are non-blocking and stay outside Go's network poller: they
// are read and written by whoever calls Poll or Send with the engine's lock
// held, which saves the hand-over between goroutines (2-20 us a message). A
// process that has nothing left to do sleeps in Wait, one epoll descriptor over
// all of it.
//
// # Connecting
//
// A pair is connected when one side first wants to send. Until the connection
// is up Send answers Full, so no frame is ever accepted that a failed or
// abandoned handshake could lose. The handshake is mutual: both ranks prove
// that they know the secret of the incarnation before a byte of a frame is
// taken, and no frame travels before the acceptor's verdict:
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
// When two ranks connect to one another at once, the connection begun by the
// lower rank wins: the acceptor decides when it has verified the proof. The
// lower rank answers Yield while an attempt of its own is under way; the higher
// one accepts and drops its own. Since the lower rank accepts only while it has
// no attempt, and begins none once it has accepted, exactly one survives.
//
// An initiator may give up an attempt only until it has sent its proof; from
// then on the acceptor alone decides, with a verdict or by closing. Quiesce
// relies on it: attempts before the proof are torn down, callers not yet
// accepted are told Later, and what remains is decided by the peer at its own
// Quiesce at the latest.
//
// A stranger costs a descriptor with a deadline; there is a limit on how many,
// beyond which the oldest silent one makes room.
//
// # Frames
//
// After the handshake both directions carry nothing but frames, back to back:
// a header of rpi.HeaderSize bytes (drawn at rpi.Header), and its payload.
//
//	| header 48 | payload h.PayloadLen() | header 48 | payload | ...
//
// Small frames are copied into a buffer of the connection and leave in one
// write, alone or batched; large ones are written from the user's memory and
// read into it. An undecodable header ends the connection.
package tcp
