package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// word has a cache line of its own.
type word struct {
	_ [64]byte
	n atomic.Int64
	_ [64]byte
}

// betweenProcessors returns what a word takes from one processor to another, as
// the best of many short runs: no message can be faster. On a busy machine, where
// both sides may wait for the same processor, there are fewer.
func betweenProcessors() time.Duration {
	const count = 1000
	var there, back word
	go func() {
		runtime.LockOSThread()
		for i := int64(1); ; i++ {
			n := there.n.Load()
			for n != i && n >= 0 {
				n = there.n.Load()
			}
			if n < 0 {
				return
			}
			back.n.Store(i)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer there.n.Store(-1)
	best, i := time.Hour, int64(0)
	for began := time.Now(); time.Since(began) < time.Second; {
		start := time.Now()
		for range count {
			i++
			there.n.Store(i)
			for back.n.Load() != i {
			}
		}
		best = min(best, time.Since(start))
	}
	return best / (2 * count)
}
