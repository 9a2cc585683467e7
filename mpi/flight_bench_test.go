package mpi_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// BenchmarkExchange is 8 bytes from a rank to itself, by requests made anew and by persistent ones.
func BenchmarkExchange(b *testing.B) {
	b.Run("Isend,Irecv", func(b *testing.B) {
		b.ReportAllocs()
		mpitest.Run(b, 1, func(c *mpi.Comm) (err error) {
			in, out, rs := make([]byte, 8), make([]byte, 8), make([]mpi.Request, 2)
			for range b.N {
				if rs[0], err = mpi.Irecv(c, in, 0, 0); err != nil {
					return err
				}
				if rs[1], err = mpi.Isend(c, out, 0, 0); err != nil {
					return err
				}
				if err = mpi.WaitallInto(rs, nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("Startall", func(b *testing.B) {
		b.ReportAllocs()
		mpitest.Run(b, 1, func(c *mpi.Comm) error {
			in, out, rs := make([]byte, 8), make([]byte, 8), make([]mpi.Request, 2)
			r, err := mpi.RecvInit(c, in, 0, 0)
			if err != nil {
				return err
			}
			s, err := mpi.SendInit(c, out, 0, 0)
			if err != nil {
				return err
			}
			ps := []*mpi.Persistent{r, s}
			for range b.N {
				if err = mpi.Startall(ps, rs); err != nil {
					return err
				}
				if err = mpi.WaitallInto(rs, nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// BenchmarkInFlight is an Allreduce of 8 bytes on two ranks, in each form.
func BenchmarkInFlight(b *testing.B) {
	send, sum := make([]float64, 1), make([]float64, 1)
	forms := map[string]func(c *mpi.Comm, p *mpi.Persistent, send, sum []float64) (mpi.Request, error){
		"blocking": func(c *mpi.Comm, _ *mpi.Persistent, send, sum []float64) (mpi.Request, error) {
			return mpi.Request{}, mpi.Allreduce(c, send, sum, mpi.Sum)
		},
		"begun": func(c *mpi.Comm, _ *mpi.Persistent, send, sum []float64) (mpi.Request, error) {
			return mpi.Iallreduce(c, send, sum, mpi.Sum)
		},
		"persistent": func(_ *mpi.Comm, p *mpi.Persistent, _, _ []float64) (mpi.Request, error) { return p.Start() },
	}
	for name, form := range forms {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			mpitest.Run(b, 2, func(c *mpi.Comm) error {
				send, sum := append([]float64{}, send...), append([]float64{}, sum...)
				p, err := mpi.AllreduceInit(c, send, sum, mpi.Sum)
				if err != nil {
					return err
				}
				for range b.N {
					r, err := form(c, p, send, sum)
					if err != nil {
						return err
					}
					if _, err := r.Wait(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
