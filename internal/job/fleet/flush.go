package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// flushing is a copy that a node was ordered to make.
type flushing struct {
	progress func(int64)
	answer   chan flushed
}

// flushed is its outcome.
type flushed struct {
	done wire.Flushed
	err  error
}

// Flush makes a node copy its images into another store, and waits until it has. progress gets the
// number of bytes done in all. It returns what was merged, and the processor time that the node has
// used for it. ErrLost: the node is lost. When the context ends the node is told to give up.
func (f *Fleet) Flush(ctx context.Context, to string, o *wire.Flush, progress func(int64)) (wire.Flushed, error) {
	f.mu.Lock()
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.Name == to })
	if i < 0 || f.nodes[i].own || f.nodes[i].state != up && f.nodes[i].state != suspect {
		f.mu.Unlock()
		return wire.Flushed{}, fmt.Errorf("node %s: %w", to, ErrLost)
	}
	n := f.nodes[i]
	f.flushes++
	number, w := f.flushes, &flushing{progress, make(chan flushed, 1)}
	n.flushes[number] = w
	n.queue.Send(oob.Msg{Kind: oob.Flush, From: oob.Head, A: number, Data: wire.JSON(o)})
	f.mu.Unlock()
	var got flushed
	select {
	case got = <-w.answer:
	case <-n.ended:
		got.err = ErrLost
	case <-ctx.Done():
		n.queue.Send(oob.Msg{Kind: oob.Flush, From: oob.Head, A: number})
		got.err = context.Cause(ctx)
	}
	f.mu.Lock()
	delete(n.flushes, number)
	f.mu.Unlock()
	if got.err != nil {
		return wire.Flushed{}, fmt.Errorf("node %s: %w", to, got.err)
	}
	return got.done, nil
}

// flushed takes an answer, or a word of progress.
func (n *node) flushed(m *oob.Msg) {
	w := n.flushes[m.A]
	switch {
	case w == nil: // given up
	case len(m.Data) == 0:
		w.progress(int64(m.B))
	default:
		var d wire.Flushed
		err := json.Unmarshal(m.Data, &d)
		if err == nil && d.Err != "" {
			err = errors.New(d.Err)
		}
		delete(n.flushes, m.A)
		w.answer <- flushed{d, err}
	}
}
