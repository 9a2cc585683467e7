package mpi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Columns of all lengths, short and long messages, arrive in their places and touch nothing else.
func TestViews(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		for _, rows := range []int{0, 1, 3, 100, 1023, 40000} {
			const width = 3
			m := make([]float64, rows*width)
			for i := range m {
				m[i] = float64(100*c.Rank() + i)
			}
			column := mpi.Vector(rows, 1, width)
			if rows == 0 {
				column = mpi.Contiguous(0)
			}
			if c.Rank() == 0 {
				if err := mpi.SendView(c, mpi.View[float64]{m, column.Shift(2)}, 1, 1); err != nil {
					return err
				}
				continue
			}
			want := slices.Clone(m)
			for i := range rows {
				want[i*width] = float64(i*width + 2)
			}
			st, err := mpi.RecvView(c, mpi.View[float64]{m, column}, 0, 1)
			if err != nil || st.Count != rows || !slices.Equal(m, want) {
				t.Errorf("%d rows: %v, %+v", rows, err, st)
			}
		}
		return nil
	})
}

// A longer message fills the view, a shorter one a part of it.
func TestViewLengths(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return errors.Join(mpi.Send(c, []int{1, 2, 3}, 1, 0), mpi.Send(c, []int{1}, 1, 0))
		}
		every := mpi.Vector(2, 1, 2)
		m := make([]int, 4)
		if _, err := mpi.RecvView(c, mpi.View[int]{m, every}, 0, 0); !errors.Is(err, mpi.ErrTruncate) || !slices.Equal(m, []int{1, 0, 2, 0}) {
			t.Error(err, m)
		}
		clear(m)
		if st, err := mpi.RecvView(c, mpi.View[int]{m, every}, 0, 0); err != nil || st.Count != 1 || !slices.Equal(m, []int{1, 0, 0, 0}) {
			t.Error(err, m)
		}
		return nil
	})
}

func TestViewErrors(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		m := make([]int, 4)
		out, twice := mpi.View[int]{m, mpi.Vector(3, 1, 2)}, mpi.View[int]{m, mpi.Indexed([]int{2, 2}, []int{0, 1})}
		fine := mpi.View[int]{m, mpi.Contiguous(2)}
		_, r1 := mpi.RecvView(c, out, 0, 0)
		_, r2 := mpi.RecvView(c, twice, 0, 0)
		_, r3 := mpi.SendrecvView(c, fine, 0, 0, out, 0, 0)
		for i, err := range []error{mpi.SendView(c, out, 0, 0), mpi.SsendView(c, out, 0, 0), r1, r2, r3} {
			if !errors.Is(err, mpi.ErrLayout) {
				t.Error(i, err)
			}
		}
		if _, err := mpi.SendrecvView(c, fine, 0, 0, fine, 0, 0); !errors.Is(err, mpi.ErrBuffer) {
			t.Error(err)
		}
		return nil
	})
}

// One rank's bad view fails the call on all.
func TestAlltoallwErrors(t *testing.T) {
	for name, change := range map[string]func(send, recv []mpi.View[int]) []mpi.View[int]{
		"outside": func(send, recv []mpi.View[int]) []mpi.View[int] {
			send[1].Layout = mpi.Contiguous(3)
			return send
		},
		"twice": func(send, recv []mpi.View[int]) []mpi.View[int] {
			recv[0].Layout = mpi.Indexed([]int{1, 1}, []int{0, 0})
			return send
		},
		"too few": func(send, recv []mpi.View[int]) []mpi.View[int] { return send[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				send, recv := make([]mpi.View[int], 2), make([]mpi.View[int], 2)
				for i := range 2 {
					send[i] = mpi.View[int]{make([]int, 2), mpi.Contiguous(1)}
					recv[i] = mpi.View[int]{make([]int, 2), mpi.Contiguous(1)}
				}
				if c.Rank() == 1 {
					send = change(send, recv)
				}
				err = mpi.Alltoallw(d, send, recv)
				want := []error{mpi.ErrPoisoned, mpi.ErrLayout}[c.Rank()]
				if name == "too few" && c.Rank() == 1 {
					want = mpi.ErrCount
				}
				if !errors.Is(err, want) {
					t.Errorf("rank %d: %v", c.Rank(), err)
				}
				return nil
			})
		})
	}
}
