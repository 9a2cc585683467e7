package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

const (
	window  = 64 // messages under way, at the end of which the reader says how far it is
	ring    = 4 * window
	perLine = line/8 - 1
)

// cell is a line of words, and the number of times that cells were filled.
type cell struct {
	full  uint64
	words [perLine]uint64
}

// startStream: the first process writes a window of words, so many to a cell,
// and the second one takes them out.
func startStream(s *shared, each int) doing {
	var total uint64 // words
	if s.Rank == 0 {
		cells, at := s.cells(s.mem), uint64(0)
		return doing{func() {
			s.await(s.word(1, done), total-min(total, ring-window))
			for k := 0; k < window; k += each {
				c := &cells[at%ring]
				for i := range min(each, window-k) {
					c.words[i] = total + uint64(k+i)
				}
				at++
				release(&c.full, at)
			}
			total += window
		}, func() error { return nil }}
	}
	cells, at := s.cells(s.seen), uint64(0)
	var into [window]uint64
	return doing{func() {
		for k := 0; k < window; k += each {
			c := &cells[at%ring]
			at++
			s.await(&c.full, at)
			copy(into[k:], c.words[:min(each, window-k)])
		}
		total += window
		release(s.word(1, done), total)
	}, func() error {
		for i, v := range into {
			if want := total - window + uint64(i); v != want {
				return fmt.Errorf("message %d is %d", want, v)
			}
		}
		return nil
	}}
}

func (s *shared) cells(mem []byte) *[ring]cell {
	return (*[ring]cell)(unsafe.Pointer(unsafe.SliceData(s.buffer(mem, 0, ring*line))))
}

// release is a store that others see after those before it. On amd64 every store
// is, and atomic.Store waits until they do.
func release(p *uint64, v uint64) {
	if runtime.GOARCH == "amd64" {
		*p = v
	} else {
		atomic.StoreUint64(p, v)
	}
}
