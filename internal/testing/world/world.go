// Package world makes ranks of jobs that are given, where a program would call
// mpi.Run: for tests, and for other callers that run ranks as goroutines of one process.
package world

import (
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/mpi"
)

// New returns the world communicator of a rank. onAbort is what mpi.Abort does there
// instead of leaving the process; it must not return. An error names a parameter of
// the job that is wrong.
func New(j *job.Job, onAbort func(text string)) (*mpi.Comm, error) {
	c, err := job.NewWorld(j, onAbort)
	if err != nil {
		return nil, err
	}
	return c.(*mpi.Comm), nil
}

// Leave says what the rank has begun and not ended: Finalize refuses it. If there is
// nothing, calls fail from now on, and others that wait for this rank are told.
func Leave(w *mpi.Comm) error { return job.Leave(w) }

// Finalize is mpi.Finalize for one rank.
func Finalize(w *mpi.Comm) error { return job.Finalize(w) }

// Account is what a rank that has made all its calls says of them: the accounts of all
// ranks add up to 0, or Settle is to be called for each, all at the same time.
func Account(w *mpi.Comm) uint64 { return job.Account(w) }

// Settle finds out what the ranks disagree about, nil if nothing.
func Settle(w *mpi.Comm) error { return job.Settle(w) }

// Shutdown ends what New has begun, without waiting for other ranks. After Finalize
// it does nothing.
func Shutdown(w *mpi.Comm) { job.Shutdown(w) }

// Rank runs f as one rank, Finalize included.
func Rank(j *job.Job, f func(w *mpi.Comm) error) error {
	w, err := New(j, func(text string) { panic(text) })
	if err != nil {
		return err
	}
	defer Shutdown(w)
	if err := f(w); err != nil {
		return err
	}
	return Finalize(w)
}
