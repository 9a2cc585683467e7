package job

import (
	"runtime/debug"
	"runtime/metrics"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// heap is the run-time's figures about its memory, in bytes.
type heap struct {
	objects uint64 // now
	live    uint64 // that the last collection found in use; 0: there was none
	free    uint64 // that are the process's and hold no object
	scan    uint64 // that a collection has to look through for pointers
	off     bool   // the program wants no collections
}

// least is too little memory for a collection to be worth it.
const least = 16 << 20

// unseen is the share of the heap that is expected to be garbage beside what is known: one in so many bytes.
const unseen = 8

// worth reports whether an image costs less if garbage is collected first. To look through memory for pointers takes about as long as to image
// as many bytes; arrays of numbers have none. What was allocated since the last collection may be garbage, and so may some of what was in use then.
func (h heap) worth() bool {
	waste := h.free + h.objects - min(h.live, h.objects) + h.objects/unseen
	return !h.off && h.objects+h.free >= least && waste > h.scan
}

func readHeap() heap {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/scan/total:bytes"},
		{Name: "/gc/gogc:percent"},
	}
	metrics.Read(s)
	n := func(i int) uint64 { return s[i].Value.Uint64() }
	return heap{objects: n(0), live: n(1), free: n(2), scan: n(3), off: int32(n(4)) < 0}
}

// trim gives back memory that an image of the whole process would hold needlessly: garbage, and
// memory that was garbage. The program goes on meanwhile.
func (j *Job) trim(mode uint64) {
	if mode == oob.ModeAuto && j.lacks() == nil {
		return // its image will have only registered state
	}
	if readHeap().worth() {
		debug.FreeOSMemory()
	}
}
