package job

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Names maps the context of every live communicator to its creation path, for errors and images. The zero
// value is ready. Any number of goroutines may call its methods. They call nothing else, so the engine may call
// them with its lock held.
type Names struct {
	mu      sync.Mutex
	paths   map[uint64]string
	passing map[uint64]bool
}

// Path returns the creation path of a live communicator. The lowest bit of a context separates the two kinds
// of traffic of one communicator.
func (n *Names) Path(ctx uint64) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.paths[ctx]
	if !ok {
		p, ok = n.paths[ctx&^1]
	}
	return p, ok
}

func (n *Names) set(ctx uint64, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paths == nil {
		n.paths = map[uint64]string{}
	}
	n.paths[ctx] = path
}

func (n *Names) forget(ctx uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.paths, ctx)
}

// RegisterContext names a communicator that was created.
func (j *Job) RegisterContext(ctx uint64, path string) { j.names.set(ctx, path) }

// RegisterPassing names a context like RegisterContext. A program that begins again does not need
// its messages, so portable images leave them out.
func (j *Job) RegisterPassing(ctx uint64, path string) {
	j.names.set(ctx, path)
	n := j.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.passing == nil {
		n.passing = map[uint64]bool{}
	}
	n.passing[ctx&^1] = true
}

// lasting returns what is left of messages without those of passing contexts, in the same memory.
func (n *Names) lasting(saved []engine.Saved) []engine.Saved {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(saved, func(s engine.Saved) bool { return n.passing[s.Ctx&^1] })
}

// ReleaseContext forgets a communicator that was freed.
func (j *Job) ReleaseContext(ctx uint64) { j.names.forget(ctx) }

// ContextPath returns the creation path of a live communicator.
func (j *Job) ContextPath(ctx uint64) (string, bool) { return j.names.Path(ctx) }

// Contexts returns the paths of all live communicators, keyed by the context
// in hexadecimal.
func (j *Job) Contexts() map[string]string {
	n := j.names
	n.mu.Lock()
	defer n.mu.Unlock()
	m := make(map[string]string, len(n.paths))
	for ctx, p := range n.paths {
		m[ContextKey(ctx)] = p
	}
	return m
}

// ContextKey is how an image spells a context.
func ContextKey(ctx uint64) string { return fmt.Sprintf("%016x", ctx&^1) }
