package job

import (
	"fmt"
	"sync"
)

// contexts maps the context of every live communicator to its creation path, for errors and images. The zero
// value is ready.
type contexts struct {
	mu    sync.Mutex
	paths map[uint64]string
}

// RegisterContext names a communicator that was created.
func (j *Job) RegisterContext(ctx uint64, path string) {
	j.ctxs.mu.Lock()
	defer j.ctxs.mu.Unlock()
	if j.ctxs.paths == nil {
		j.ctxs.paths = map[uint64]string{}
	}
	j.ctxs.paths[ctx] = path
}

// ReleaseContext forgets a communicator that was freed.
func (j *Job) ReleaseContext(ctx uint64) {
	j.ctxs.mu.Lock()
	defer j.ctxs.mu.Unlock()
	delete(j.ctxs.paths, ctx)
}

// ContextPath returns the creation path of a live communicator. The lowest bit
// of a context separates the two kinds of traffic of one communicator.
func (j *Job) ContextPath(ctx uint64) (string, bool) {
	j.ctxs.mu.Lock()
	defer j.ctxs.mu.Unlock()
	p, ok := j.ctxs.paths[ctx]
	if !ok {
		p, ok = j.ctxs.paths[ctx&^1]
	}
	return p, ok
}

// Contexts returns the paths of all live communicators, keyed by the context
// in hexadecimal.
func (j *Job) Contexts() map[string]string {
	j.ctxs.mu.Lock()
	defer j.ctxs.mu.Unlock()
	m := make(map[string]string, len(j.ctxs.paths))
	for ctx, p := range j.ctxs.paths {
		m[ContextKey(ctx)] = p
	}
	return m
}

// ContextKey is how an image spells a context.
func ContextKey(ctx uint64) string { return fmt.Sprintf("%016x", ctx&^1) }
