package mpi

import "github.com/gorun-mpi/gorun/internal/rank/engine"

// Where ranks share CPUs, one rank puts short data together: the first that sees all of it. The others read the
// result (see engine.Turn.Once). If each of many ranks read all lines, that would take longer than the rest of
// the turn.

// This is faster up to so many bytes of all ranks together. A gather needs a number of ranks as well, because
// there each reads as much either way.
const (
	allreduceOnce     = 64 << 10
	reduceScatterOnce = 16 << 10
	allgatherOnce     = 4 << 10
	gatherersOnce     = 16
)

// once reports whether a call in which each rank posts so many bytes is put together by one rank.
func (x *collective) once(bytes, most int) bool {
	return x.c.env.chooser.crowded && bytes > 0 && bytes*x.c.size <= most && bytes <= x.c.coll.team.Piece()
}

// combinesOnce returns a function that combines all contributions, if one rank is to do it for all; else nil.
// Operators of programs are not called there (see combiner).
func (x *collective) combinesOnce(most int) engine.Combiner {
	if x.own != nil && x.once(x.bytes, most) {
		return x.own
	}
	return nil
}

// foldOnce combines all send. It copies the result from byte off on to recv.
func (x *collective) foldOnce(send, recv []byte, off int, c engine.Combiner) error {
	return x.take(engine.Turn{Need: engine.Everybody, Once: true, Combine: c, Send: send, Want: x.bytes, Off: off, Len: len(recv), Into: recv})
}
