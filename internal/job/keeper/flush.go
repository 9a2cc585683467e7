package keeper

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/places"
)

// flushes are the copies of this node's images into other stores that the head has ordered, by number.
type flushes struct {
	head *wire.Queue
	open places.Opener

	mu      sync.Mutex
	closed  bool
	working sync.WaitGroup
	giveUp  map[uint64]context.CancelFunc
}

func newFlushes(head *wire.Queue, memory *mem.Memory) *flushes {
	open := func(w wire.Store, env []string) (store.Store, error) {
		if w.Kind == mem.Kind {
			return memory, nil
		}
		return places.Here(w, env)
	}
	return &flushes{head: head, open: open, giveUp: map[uint64]context.CancelFunc{}}
}

// order takes an order: to copy, or, without data, to give up what was ordered under the number.
func (f *flushes) order(m *oob.Msg) {
	number := m.A
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(m.Data) == 0 {
		if cancel := f.giveUp[number]; cancel != nil {
			cancel()
		}
		return
	}
	if f.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.giveUp[number] = cancel
	var o wire.Flush
	err := json.Unmarshal(m.Data, &o)
	f.working.Go(func() {
		var done wire.Flushed
		if err == nil {
			done, err = places.Flush(ctx, f.open, &o, f.progress(number))
		}
		if err != nil {
			done.Err = err.Error()
		}
		f.head.Send(oob.Msg{Kind: oob.Flushed, To: oob.Head, A: number, Data: wire.JSON(done)})
		f.mu.Lock()
		delete(f.giveUp, number)
		f.mu.Unlock()
		cancel()
	})
}

// tellEvery is how often the head hears of progress.
const tellEvery = 200 * time.Millisecond

// progress tells the head how many bytes are done.
func (f *flushes) progress(number uint64) func(int64) {
	var done int64
	var last time.Time
	return func(n int64) {
		done += n
		if time.Since(last) < tellEvery {
			return
		}
		last = time.Now()
		f.head.Send(oob.Msg{Kind: oob.Flushed, To: oob.Head, A: number, B: uint64(done)})
	}
}

// close gives up all copies, and waits until none writes any more.
func (f *flushes) close() {
	f.mu.Lock()
	f.closed = true
	for _, cancel := range f.giveUp {
		cancel()
	}
	f.mu.Unlock()
	f.working.Wait()
}
