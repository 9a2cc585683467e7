// Package fleet is the head's side of its nodes, over all lives of a job: it brings them up, starts
// agents there, grants them their leases, and knows for certain when a node cannot act any more.
//
//	head ── Fleet ── home ◄── keeper of b ── agents of b
//	          │        ▲────────── agent of b, life 1
//	          ├─ launcher.Manager: starts keepers
//	          └─ launcher/local: agents on the head's own node, its children
//
// # Bringing up
//
// All nodes are brought up at once: the manager starts a keeper (at most 128 at the same time), the
// keeper calls home and describes its node, which is checked: the same gorun, another machine than
// every other node. A node that cannot be used is replaced by a spare. If no spare is left the job
// does not begin, and the error says what is wrong with each node. The head's own machine needs no
// keeper.
//
// # States of a node
//
//	starting ──► up ◄──► suspect ──► lost ──► fenced
//	    └──► failed                              ╎
//	starting ◄╌╌╌╌╌╌╌╌╌╌╌ Join ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┘   a new node under the same name
//
// A node is suspect when it has not asked for its lease for a quarter of the lease's time. It is
// lost after half of that time, or when its connection has ended. A lost node gets no more grants,
// its agents' streams end at once, and it is not used again. It is fenced when its last lease has
// expired, with a margin (package lease). An agent's Wait returns when its keeper has said that
// nothing of it is left, or when the node is fenced: so no life begins while ranks of an earlier
// one may act. For the same reason a node joins again only when it is fenced, under whichever
// name.
//
// If keepers come by themselves (Awaited), a fenced node starts over and waits for another keeper
// to call as that node. A life that has too few nodes waits for that, too.
//
// # Placement
//
// Package hosts decides which ranks go where: Pick in the first life, and Next in later ones, so
// that ranks whose node lives stay where they are.
//
// # No tree
//
// Keepers and agents all call the head itself. What the head sends and keeps grows with ranks and nodes, and not with
// pairs of them, so a tree of agents would gain little: docs/lab/scale.md has the figures of 4,096 nodes.
//
// # Goroutines
//
// Each keeper has one that reads and grants: grants must not wait for the head's loop, which may be
// busy. One goroutine looks for silent nodes. All state is guarded by Fleet.mu.
package fleet
