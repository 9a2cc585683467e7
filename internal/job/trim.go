package job

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// heap is what the run-time knows of its memory.
type heap struct {
	objects, live uint64        // bytes of objects now, and that the last collection found in use
	free          uint64        // bytes that are the process's and hold no object
	cycles        uint64        // collections until now
	spent         time.Duration // processor time that they have taken
	off           bool          // the program wants none
}

// imaging is how many bytes of memory are imaged in a second of processor time.
const imaging = 1 << 30

// least is too little memory for a collection to be worth it.
const least = 16 << 20

// unseen is the share of the heap that is expected to be garbage beside what is known.
const unseen = 1. / 8

// worth reports whether an image costs less if garbage is collected first. What was allocated since the last collection
// may be garbage, and so may some of what was in use then.
func (h heap) worth() bool {
	if h.off || h.objects+h.free < least {
		return false
	}
	waste := float64(h.free+h.objects-min(h.live, h.objects)) + unseen*float64(h.objects)
	return h.cycles == 0 || waste/imaging > (h.spent/time.Duration(h.cycles)).Seconds()
}

func readHeap() heap {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/gogc:percent"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(s)
	n := func(i int) uint64 { return s[i].Value.Uint64() }
	return heap{objects: n(0), live: n(1), free: n(2), cycles: n(3), off: int32(n(4)) < 0,
		spent: time.Duration(s[5].Value.Float64() * float64(time.Second))}
}

// trim gives back what an image of the whole process would hold for nothing: garbage, and memory that was garbage. The
// program goes on meanwhile.
func (j *Job) trim(mode uint64) {
	if mode == oob.ModeAuto && j.lacks() == nil {
		return // its image will have what it registered, and nothing else
	}
	if readHeap().worth() {
		debug.FreeOSMemory()
	}
}
