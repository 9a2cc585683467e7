package mpi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Where ranks disagree about a call, an error says in what, which ranks, and where their programs are.
func TestMismatchSaysWhat(t *testing.T) {
	for _, table := range []map[string]string{nil, shared("")} {
		for _, c := range []struct {
			what string
			call func(c *mpi.Comm) error
			want []string
		}{
			{"the root", func(c *mpi.Comm) error {
				if err := mpi.Bcast(c, make([]int, 2), c.Rank()%2); err != nil {
					return err
				}
				return mpi.Barrier(c)
			}, []string{"another root", "Bcast, root 0, 16 bytes", "Bcast, root 1, 16 bytes"}},
			{"the length", func(c *mpi.Comm) error {
				n := 3 + c.Rank()/2
				return mpi.Allreduce(c, make([]int, n), make([]int, n), mpi.Sum)
			}, []string{"another length", "Allreduce, 24 bytes", "Allreduce, 32 bytes", "inquiry_test.go:"}},
			{"the operator", func(c *mpi.Comm) error {
				var op mpi.Op[int] = mpi.Sum[int]
				if c.Rank() == 2 {
					op = mpi.Max[int]
				}
				return mpi.Allreduce(c, make([]int, 1), make([]int, 1), op)
			}, []string{"another operator:", "Allreduce, 8 bytes, int, Sum", "Allreduce, 8 bytes, int, Max", "inquiry_test.go:"}},
			{"the type", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return mpi.Allreduce(c, make([]float64, 1), make([]float64, 1), mpi.Sum)
				}
				return mpi.Allreduce(c, make([]int, 1), make([]int, 1), mpi.Sum)
			}, []string{"another element type:", "Allreduce, 8 bytes, int, Sum", "Allreduce, 8 bytes, float64, Sum"}},
			{"type and operator", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return mpi.Allreduce(c, make([]float64, 1), make([]float64, 1), mpi.Min)
				}
				return mpi.Allreduce(c, make([]int, 1), make([]int, 1), mpi.OpFunc(func(dst, src []int) {}, true))
			}, []string{"another element type and operator:", "Allreduce, 8 bytes, int, an operator of the program", "Allreduce, 8 bytes, float64, Min"}},
			{"a type without operator", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return mpi.Allgather(c, make([]uint32, 2), make([]uint32, 6))
				}
				return mpi.Allgather(c, make([]int64, 1), make([]int64, 3))
			}, []string{"another element type:", "Allgather, 8 bytes, int64", "Allgather, 8 bytes, uint32"}},
			{"a type of structs", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return mpi.Allgather(c, make([]struct{ a, b float32 }, 1), make([]struct{ a, b float32 }, 3))
				}
				return mpi.Allgather(c, make([]int64, 1), make([]int64, 3))
			}, []string{"another element type"}},
			{"the operator of one that was begun", func(c *mpi.Comm) error {
				var op mpi.Op[int] = mpi.Sum[int]
				if c.Rank() == 2 {
					op = mpi.Max[int]
				}
				return waited(mpi.Iallreduce(c, make([]int, 1), make([]int, 1), op))
			}, []string{"another operator:", "Iallreduce, 8 bytes, int, Sum", "Iallreduce, 8 bytes, int, Max"}},
			{"the type of one that was begun", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return waited(mpi.Iallgather(c, make([]uint32, 2), make([]uint32, 6)))
				}
				return waited(mpi.Iallgather(c, make([]int64, 1), make([]int64, 3)))
			}, []string{"another element type:", "Iallgather, 8 bytes, int64", "Iallgather, 8 bytes, uint32"}},
			{"a type of structs in one that was begun", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return waited(mpi.Iallgather(c, make([]struct{ a, b float32 }, 1), make([]struct{ a, b float32 }, 3)))
				}
				return waited(mpi.Iallgather(c, make([]int64, 1), make([]int64, 3)))
			}, []string{"another element type"}},
			{"type and operator of a persistent one", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return started(mpi.AllreduceInit(c, make([]float64, 1), make([]float64, 1), mpi.Min))
				}
				return started(mpi.AllreduceInit(c, make([]int, 1), make([]int, 1), mpi.Sum))
			}, []string{"another element type and operator:", "AllreduceInit, 8 bytes, int, Sum", "AllreduceInit, 8 bytes, float64, Min"}},
			{"the length of a persistent one", func(c *mpi.Comm) error {
				n := 1 + c.Rank()/2
				return started(mpi.AllreduceInit(c, make([]int, n), make([]int, n), mpi.Sum))
			}, []string{"another length", "AllreduceInit, 8 bytes", "AllreduceInit, 16 bytes"}},
			{"the call", func(c *mpi.Comm) error {
				if c.Rank() == 2 {
					return mpi.Barrier(c)
				}
				return mpi.Allreduce(c, make([]int, 1), make([]int, 1), mpi.Sum)
			}, []string{"another call", "Barrier", "Allreduce, 8 bytes"}},
		} {
			t.Run(c.what, func(t *testing.T) {
				told := make([]string, 3)
				mpitest.Run(t, 3, func(world *mpi.Comm) error {
					if table != nil {
						if err := mpi.SetChoice(world, table, make([]int, 3)); err != nil {
							return err
						}
					}
					if err := mpi.Barrier(world); err != nil {
						return err
					}
					comm, err := world.Dup()
					if err != nil {
						return err
					}
					err = c.call(comm)
					if !errors.Is(err, mpi.ErrMismatch) {
						t.Errorf("rank %d: %v, want ErrMismatch", world.Rank(), err)
						return nil
					}
					told[world.Rank()] = err.Error()
					return nil
				})
				for _, want := range c.want {
					found := false
					for _, text := range told {
						found = found || strings.Contains(text, want)
					}
					if !found {
						t.Errorf("nobody is told %q:\n%s", want, strings.Join(told, "\n"))
					}
				}
			})
		}
	}
}
