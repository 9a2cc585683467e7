// Package rendezvous is where the keepers and agents of a job call: a listener at the head, and the
// call. Nothing from a caller is interpreted before it has proved that the head invited it.
//
// A process on another node gets a Ticket over the channel that starts it (the standard input of
// ssh or srun), never in argv, in the environment, or in a file that others can read. The ticket
// says where the home is, by which key it is known, and who the caller is. Its token proves that.
//
//	caller                                           home
//	  | TCP, to each address of the ticket in turn     |   deadline, bytes, connections: all bounded
//	  | TLS 1.3, "gorun-home/1" by ALPN -------------> |
//	  | <------- certificate: its key's digest is      |
//	  |          the fingerprint of the ticket         |
//	  | 52 bytes: who, HMAC(token, caller, X, who) --> |   token = HKDF(secret, job, who)
//	  | <------- 33 bytes: verdict, HMAC(token, home,  |
//	  |          X, who)                               |   Accept returns
//	  | <===============  an oob.Stream  ============> |
//
// X is 32 bytes of the TLS exporter, which are different in every connection and known to its two
// ends only. So data of one connection is useless in another: it cannot be replayed, and a man in
// the middle with another certificate has an X with each side and a proof for neither. The answer
// proves that this home has accepted this caller, by the same token. The names of hosts and the
// clocks of nodes play no part.
//
// The caller's 52 bytes, numbers little-endian:
//
//	 0 "home"
//	 4 node  i32
//	 8 agent i32   -1: the keeper of the node
//	12 life  i64
//	20 proof [32]
//
// and the answer: a byte, 1 accepted or 2 refused, and the home's proof, zeros if it refuses.
//
// # Who may call
//
// Every token is derived from the job's secret for one node, agent and life: the ticket of one
// agent opens nothing as another. The secret stays with the head. It is random, unless Config has
// one: where tickets cannot be handed out, as between the pods of a Kubernetes Job, processes that
// share a Secret derive theirs from it (Derive), including the key of the certificate.
//
// A ticket can be used again, by the same caller. Accept returns that caller again, and callers of
// lives that are over: the head decides which callers it still wants.
//
// # Strangers
//
// A connection is a stranger's until its proof. It has Limits.Time from its first instant on, which
// nothing prolongs, and MaxUnproved bytes. It costs one goroutine and one place of Limits.Unproved.
// When all are taken, new connections wait in the kernel until a place is free, or until the oldest
// has had its Grace: then that is dropped. So an attacker who wants to keep callers out must open
// connections faster than the home drops them: with 512 places and 250 ms, more than two thousand a
// second. If the home refused new connections instead, 512 idle ones would suffice. Callers that
// are dropped call again (Call). A stranger can only make the head compute handshakes.
//
// Proved callers wait for Accept, at most Limits.Waiting. More are dropped, and call again.
//
// # The stream
//
// Listener and caller own the streams that Accept and Call return. Close ends both directions, and
// waits at most a tenth of a second for a peer that reads nothing. There is no keepalive: leases
// detect dead peers.
//
// Records are of 16 KB, the most that TLS has, from the first byte on. Both ends together compute
// 1.7 ns for a byte of bulk data, where TCP alone computes 0.4 and the two ciphers 0.5 (EPYC, loopback,
// go test -bench Bulk). Writing several records by one call gains a twelfth of that, and is not done.
package rendezvous
