package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// What is gathered without knowing the lengths is what each rank has given.
func TestLengthsAreFound(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		length := rapid.SliceOfN(rapid.IntRange(0, 300), n*n, n*n).Draw(t, "lengths")
		root := rapid.IntRange(0, n-1).Draw(t, "root")
		piece := func(from, to int) []int32 {
			return values(length[from*n+to], from*n+to, func(i int) int32 { return int32(i) })
		}
		return func(c *mpi.Comm) error {
			var expect []int32
			for r := range n {
				expect = append(expect, piece(r, 0)...)
			}
			all1, counts, err := mpi.AllgatherAlloc(c, piece(c.Rank(), 0))
			if err := all(err, want("AllgatherAlloc", all1, expect), want("counts", counts[:1], []int{length[0]})); err != nil {
				return err
			}
			all2, counts, err := mpi.GatherAlloc(c, piece(c.Rank(), 0), root)
			if c.Rank() != root {
				expect = nil
			}
			if err := all(err, want("GatherAlloc", all2, expect)); err != nil || (counts == nil) == (c.Rank() == root) {
				return fmt.Errorf("%w, counts %v", err, counts)
			}
			send := values2(n, func(to int) []int32 { return piece(c.Rank(), to) })
			got, err := mpi.AlltoallAlloc(c, send)
			for from := 0; from < n && err == nil; from++ {
				err = want("AlltoallAlloc", got[from], piece(from, c.Rank()))
			}
			return err
		}
	})
}

// Objects arrive as they were given, of an interface type, too.
func TestObjectCollectives(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		mine := document{Title: fmt.Sprint(c.Rank())}
		all1, err1 := mpi.AllgatherObjects(c, mine)
		all2, err2 := mpi.GatherObjects[any](c, c.Rank(), 1)
		one, err3 := mpi.BcastObject(c, mine, 2)
		part, err4 := mpi.ScatterObjects(c.WithCodec(jsonCodec{}), []string{"a", "", "c"}, 0)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		if all1[1].Title != "1" || one.Title != "2" || part != []string{"a", "", "c"}[c.Rank()] || c.Rank() == 1 && !slices.Equal(all2, []any{0, 1, 2}) {
			return fmt.Errorf("%v %v %v %v", all1, all2, one, part)
		}
		return nil
	})
}

// What one rank cannot encode fails the call on all.
func TestObjectsThatCannotBeSent(t *testing.T) {
	for name, call := range map[string]func(c *mpi.Comm, v *func()) error{
		"Bcast":     func(c *mpi.Comm, v *func()) error { _, err := mpi.BcastObject(c, v, 1); return err },
		"Gather":    func(c *mpi.Comm, v *func()) error { _, err := mpi.GatherObjects(c, v, 1); return err },
		"Allgather": func(c *mpi.Comm, v *func()) error { _, err := mpi.AllgatherObjects(c, v); return err },
		"Scatter": func(c *mpi.Comm, v *func()) error {
			_, err := mpi.ScatterObjects(c, values2(3, func(int) *func() { return v }), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 3, func(world *mpi.Comm) error {
				c, err := world.Dup()
				if err != nil {
					return err
				}
				if err := call(c, nil); err == nil {
					err = mpi.Barrier(c) // it may have had no need of that rank
					return wantErr("the next call", err, mpi.ErrMismatch)
				}
				return nil
			})
		})
	}
}
