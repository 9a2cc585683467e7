package mpi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// What says where the elements lie is the caller's again when a call has begun, or was made: it may be written at once.
func TestCountsAreTheCallers(t *testing.T) {
	const n = 3
	mpitest.Run(t, n, func(c *mpi.Comm) error {
		t, err := c.Cart([]int{n}, []bool{true}, false)
		if err != nil {
			return err
		}
		me := c.Rank()
		all, pair := []int{0, 1, 2}, []int{(me + 2) % n, (me + 1) % n}
		at := func(root int, want []int) []int { // nothing elsewhere
			if me == root {
				return want
			}
			return nil
		}
		for _, x := range []struct {
			name  string
			want  []int // what comes out: ranks
			begin func(out, counts, displs []int) (mpi.Request, error)
			made  func(out, counts, displs []int) (*mpi.Persistent, error)
		}{
			{"Igatherv", at(1, all), func(out, k, d []int) (mpi.Request, error) { return mpi.Igatherv(c, []int{me}, out, k, d, 1) },
				func(out, k, d []int) (*mpi.Persistent, error) { return mpi.GathervInit(c, []int{me}, out, k, d, 1) }},
			{"Iscatterv", []int{me}, func(out, k, d []int) (mpi.Request, error) { return mpi.Iscatterv(c, all, k, d, out, 1) },
				func(out, k, d []int) (*mpi.Persistent, error) { return mpi.ScattervInit(c, all, k, d, out, 1) }},
			{"Iallgatherv", all, func(out, k, d []int) (mpi.Request, error) { return mpi.Iallgatherv(c, []int{me}, out, k, d) },
				func(out, k, d []int) (*mpi.Persistent, error) { return mpi.AllgathervInit(c, []int{me}, out, k, d) }},
			{"Ialltoallv", []int{me, me, me}, func(out, k, d []int) (mpi.Request, error) { return mpi.Ialltoallv(c, all, k, d, out, k, d) },
				func(out, k, d []int) (*mpi.Persistent, error) { return mpi.AlltoallvInit(c, all, k, d, out, k, d) }},
			{"IreduceScatter", []int{n * me}, func(out, k, d []int) (mpi.Request, error) { return mpi.IreduceScatter(c, all, out, k, mpi.Sum) },
				func(out, k, d []int) (*mpi.Persistent, error) { return mpi.ReduceScatterInit(c, all, out, k, mpi.Sum) }},
			{"IneighborAllgatherv", pair, func(out, k, d []int) (mpi.Request, error) {
				return mpi.IneighborAllgatherv(t, []int{me}, out, k[:2], d[:2])
			}, func(out, k, d []int) (*mpi.Persistent, error) {
				return mpi.NeighborAllgathervInit(t, []int{me}, out, k[:2], d[:2])
			}},
			{"IneighborAlltoallv", pair, func(out, k, d []int) (mpi.Request, error) {
				return mpi.IneighborAlltoallv(t, []int{me, me}, k[:2], d[:2], out, k[:2], d[:2])
			}, func(out, k, d []int) (*mpi.Persistent, error) {
				return mpi.NeighborAlltoallvInit(t, []int{me, me}, k[:2], d[:2], out, k[:2], d[:2])
			}},
		} {
			for _, persistent := range []bool{false, true} {
				out, counts, displs := make([]int, len(x.want)), []int{1, 1, 1}, []int{0, 1, 2}
				spoil := func() { copy(counts, []int{2, -1, 7}); copy(displs, []int{1 << 40, -3, 1}) }
				var r mpi.Request
				var err error
				if persistent {
					var p *mpi.Persistent
					if p, err = x.made(out, counts, displs); err == nil {
						spoil()
						r, err = p.Start()
					}
				} else if r, err = x.begin(out, counts, displs); err == nil {
					spoil()
				}
				if err = waited(r, err); err != nil || !slices.Equal(out, x.want) {
					return fmt.Errorf("%s, persistent %v: %v, want %v, %w", x.name, persistent, out, x.want, err)
				}
			}
		}
		return viewsAreTheCallers(c)
	})
}

// viewsAreTheCallers writes slices of views, and those that layouts are made of, once a call has begun.
func viewsAreTheCallers(c *mpi.Comm) error {
	n, me := c.Size(), c.Rank()
	send, recv, lengths, displs := make([]mpi.View[int], n), make([]mpi.View[int], n), []int{1}, []int{1}
	out := make([]int, n)
	for i := range n {
		send[i] = mpi.View[int]{Data: []int{-1, me*n + i}, Layout: mpi.Indexed(lengths, displs)}
		recv[i] = mpi.View[int]{Data: out[i : i+1], Layout: mpi.Contiguous(1)}
	}
	lengths[0], displs[0] = 5, -9
	r, err := mpi.Ialltoallw(c, send, recv)
	clear(send)
	clear(recv)
	if err := waited(r, err); err != nil {
		return err
	}
	for i, got := range out {
		if got != i*n+me {
			return fmt.Errorf("from rank %d: %d", i, got)
		}
	}
	return nil
}
