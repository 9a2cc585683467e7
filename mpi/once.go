package mpi

import "github.com/gorun-mpi/gorun/rpi"

// Where ranks share CPUs, what is short is put together by one of them, the first
// that sees all of it, and the others read the result (see rpi.Turn.Once). To read
// the lines of all takes each of many ranks longer than the rest of the turn.

// Up to so many bytes of all ranks together that is faster, but to gather only from
// so many ranks on: what each reads is as much.
const (
	allreduceOnce     = 64 << 10
	reduceScatterOnce = 16 << 10
	allgatherOnce     = 4 << 10
	gatherersOnce     = 16
)

// once reports whether each posts so few bytes.
func (x *collective) once(bytes, most int) bool {
	return x.c.env.chooser.crowded && bytes > 0 && bytes*x.c.size <= most && bytes <= x.c.coll.team.Piece()
}

// combinesOnce returns what combines all contributions to a call if one rank does it
// for all; else nil. Operators of programs are called elsewhere (see combiner).
func combinesOnce[T any](x *collective, op Op[T], most int) rpi.Combiner {
	if p, ok := op.(predefined); ok && x.once(x.bytes, most) {
		return p
	}
	return nil
}

// foldOnce combines all send, and takes what belongs into recv from element off on.
func foldOnce[T any](x *collective, send, recv []T, off int, c rpi.Combiner) error {
	into := bytesOf(recv)
	return x.take(rpi.Turn{Need: rpi.Everybody, Once: true, Combine: c, Send: bytesOf(send), Want: x.bytes,
		Off: off * x.t.Size, Len: len(into), Into: into})
}
