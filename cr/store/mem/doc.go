// Package mem is a store in the memory of the nodes of a job. Nothing of it touches a disk, and nothing of it outlives
// the job.
//
//	node a                          node b                          node c
//	  Memory, in its keeper           Memory                          Memory
//	    rank-00000.img  own             rank-00002.img  own             rank-00002.img  mirror
//	    rank-00002.img  mirror          rank-00000.img  mirror          (a spare)
//	  ^ path            \\____ read ____/
//	  agent: Near
//
// Each node has one Memory, in a process that outlives ranks and agents: its keeper, or the head on
// its own node. The agents there have a Near, which asks for slots over a stream and writes to them
// itself. As a store for the whole job it is a node.Store whose parts are memories (Open): pieces
// are written here, read from any node that has them, and fetched with a check of their digest. A
// mirror is a piece that another node has fetched.
//
// # Slots
//
// A piece lies in a slot: a file of memory (memfd), known by a path (/proc/PID/fd/N) to who may open it. Fresh memory
// costs seven times as much as memory that is there, so a slot is never given back to the system. It is used for the
// next piece when
//
//   - its piece's set was removed, or the piece was replaced,
//   - nobody reads it through Open, and
//   - its writer has ended: it has committed, given up, or its stream has ended.
//
// The catalogue removes a set when a newer snapshot is committed, which is when each rank's piece of that is whole
// wherever it is to be. So a slot is given up only after its holder has heard that something newer is complete
// everywhere, whatever fails in between, and two slots a piece are enough. No set's name is used twice, so a piece of
// an earlier life is never taken for one of this.
//
// Memory that a node cannot have is refused at once, by name: the first piece of a name needs room for its second slot,
// too, which is set aside until that is taken or the piece's set is removed without. Who does not know the size of a piece when it
// is lent a slot, says it with grow before anything is written.
//
// # Owners
//
// The slots belong to the Memory, and its control group is charged for what it touches itself. A
// path is good until the piece's set is removed: whoever reads by path holds the snapshot
// meanwhile. A writer has its slot alone. A process that is killed while it writes leaves a slot
// that is never read.
//
// # Frames
//
// Near and Serve exchange lines of JSON, a request and its answer, one after the other:
//
//	{"op":"create","set":"j/h/7","piece":"rank-00000.img","size":1048576}     {"path":"/proc/12/fd/9","id":3}
//	{"op":"grow","id":3,"size":1048576}                                       {}
//	{"op":"commit","id":3}                                                    {}
//	{"op":"abort","id":3}                                                     {}
//	{"op":"begin"|"path"|"stat"|"list"|"sets"|"remove"|"done", "set":..., "piece":...}
//
// An error is its text and its kind: {"err":"...","kind":"exist"}. Serve gives up what a caller was writing when the
// stream ends.
package mem

import "github.com/gorun-mpi/gorun/cr/store"

// Kind is what users and schemas call it.
const Kind = store.KindMem
