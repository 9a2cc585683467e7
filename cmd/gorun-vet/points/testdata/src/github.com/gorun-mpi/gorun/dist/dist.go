// Package dist is as much of gorun's as tests need.
package dist

import "github.com/gorun-mpi/gorun/mpi"

type Array[T any] struct{}

func (a *Array[T]) Own() []T        { return nil }
func (a *Array[T]) Row(i int) []T   { return nil }
func (a *Array[T]) Exchange() error { return nil }

type Rows []int

func Held(c *mpi.Comm, rows Rows, width int, v any) (any, error) { return v, nil }
