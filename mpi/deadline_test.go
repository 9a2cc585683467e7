package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// A collective ends at its deadline although another rank takes nothing, not even
// the reason: only then does the other take anything again.
func TestDeadlineBesideFullChannel(t *testing.T) {
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
	begun, shut, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wait := asRanks(t, c, func(w *mpi.Comm) error {
		side, err := w.Dup()
		if err != nil {
			return err
		}
		if err := mpi.Barrier(side); err != nil {
			return err
		}
		if w.Rank() == 1 {
			close(begun)
			<-over
			return nil
		}
		defer close(over)
		<-shut
		return fillAndGiveUp(w, side)
	})
	<-begun
	c.Jobs[1].Engine.CloseGate()
	close(shut)
	<-over
	c.Jobs[1].Engine.OpenGate()
	wait()
	c.Stop()
}

// asRanks runs f as every rank of the cluster, Finalize included.
func asRanks(t *testing.T, c *jobtest.Cluster, f func(*mpi.Comm) error) (wait func()) {
	var running sync.WaitGroup
	for i, j := range c.Jobs {
		running.Go(func() {
			if err := jobtest.Rank(j, f); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	return running.Wait
}

// fillAndGiveUp sends rank 1 all that it takes, and then begins a collective whose
// deadline has passed.
func fillAndGiveUp(w, side *mpi.Comm) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	for err := error(nil); err == nil; {
		if err = mpi.Send(w.WithContext(ctx), make([]byte, 8), 1, 0); err != nil && !errors.Is(err, mpi.ErrDeadline) {
			return err
		}
	}
	if err := mpi.Barrier(side.WithContext(ctx)); !errors.Is(err, mpi.ErrDeadline) {
		return fmt.Errorf("Barrier: %v", err)
	}
	return nil
}
