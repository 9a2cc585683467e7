package kube

import (
	"context"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/launcher"
)

// Manager is that of the head. Its keepers are there or come by themselves.
type Manager struct{ *Pod }

// Name returns "kube".
func (m Manager) Name() string { return "kube" }

// Start has nothing to start: the pod calls home.
func (m Manager) Start(ctx context.Context, n launcher.Node, ticket []byte) (launcher.Process, error) {
	return &pod{over: make(chan struct{})}, ctx.Err()
}

// pod is what the head has of another pod: nothing that it could end. Its keeper ends at the head's
// goodbye or with its lease.
type pod struct {
	once sync.Once
	over chan struct{}
}

// Kill ends Wait.
func (p *pod) Kill() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

// Wait returns after Kill.
func (p *pod) Wait() error {
	<-p.over
	return nil
}

// Patience is how long a job waits for its pods: they may have to be scheduled, and their image
// fetched.
func (m Manager) Patience() time.Duration { return 10 * time.Minute }
