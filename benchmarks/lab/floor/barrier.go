package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/memcopy"
)

func startBarrier(s *shared) doing {
	return doing{s.meet, func() error { return nil }}
}

// startCopy: a message to the other process and its answer.
func startCopy(s *shared) doing {
	private, n := make([]byte, s.Bytes), uint64(0)
	for i := range private {
		private[i] = byte(i + s.Rank)
	}
	do := func() {
		n++
		if s.Rank == 1 {
			s.await(s.word(0, mark), n)
			memcopy.Bytes(private, s.buffer(s.seen, 0, s.Bytes))
		}
		memcopy.Bytes(s.buffer(s.mem, s.Rank, s.Bytes), private)
		s.set(mark, n)
		if s.Rank == 0 {
			s.await(s.word(1, mark), n)
			memcopy.Bytes(private, s.buffer(s.seen, 1, s.Bytes))
		}
	}
	return doing{do, func() error {
		for i, v := range private { // the first one's has come back
			if v != byte(i) {
				return fmt.Errorf("byte %d is %d", i, v)
			}
		}
		return nil
	}}
}
