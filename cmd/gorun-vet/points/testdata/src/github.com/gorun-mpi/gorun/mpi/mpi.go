// Package mpi stands for the real one, of which it has what the tests call.
package mpi

type Comm struct{}

type Status struct{}

type Op struct{}

var Sum Op

func (c *Comm) Rank() int                                         { return 0 }
func (c *Comm) Size() int                                         { return 1 }
func Barrier(c *Comm) error                                       { return nil }
func Send[T any](c *Comm, x []T, dest, tag int) error             { return nil }
func Recv[T any](c *Comm, x []T, source, tag int) (Status, error) { return Status{}, nil }
func AllreduceInPlace[T any](c *Comm, x []T, op Op) error         { return nil }
func Bcast[T any](c *Comm, buf []T, root int) error               { return nil }
