//go:build !race

package mpi_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Nothing is allocated per message or collective on the steady path. Both ranks
// count, as the counter is the process's: the average must round to none. Pools
// may still grow when the scheduler lets a rank run ahead as never before, so the
// best of several windows counts: what allocates does so in each of them. Where
// one rank could run ahead of the other, whose unexpected messages then pile up,
// a barrier keeps them together.
func TestAllocations(t *testing.T) {
	f := func(n int) []float64 { return make([]float64, n) }
	small, large := f(8), f(20_000)
	sum := mpi.Sum[float64]()
	reqs := make([][2]mpi.Request, 2)
	for _, x := range []struct {
		name string
		call func(c *mpi.Comm, b *buffers) error
	}{
		{"Send, Recv", func(c *mpi.Comm, b *buffers) error {
			if c.Rank() == 0 {
				err := mpi.Send(c, b.small, 1, 0)
				if err == nil {
					_, err = mpi.Recv(c, b.small, 1, 0)
				}
				return err
			}
			_, err := mpi.Recv(c, b.small, mpi.AnySource, mpi.AnyTag)
			if err == nil {
				err = mpi.Send(c, b.small, 0, 0)
			}
			return err
		}},
		{"Sendrecv", func(c *mpi.Comm, b *buffers) error {
			_, err := mpi.Sendrecv(c, b.small, 1-c.Rank(), 0, b.small2, 1-c.Rank(), 0)
			return err
		}},
		{"Sendrecv of long messages", func(c *mpi.Comm, b *buffers) error {
			_, err := mpi.Sendrecv(c, b.large, 1-c.Rank(), 0, b.large2, 1-c.Rank(), 0)
			return err
		}},
		{"values", func(c *mpi.Comm, b *buffers) error {
			err := mpi.SendValue(c, point{X: 1}, 1-c.Rank(), 0)
			if err == nil {
				_, _, err = mpi.RecvValue[point](c, 1-c.Rank(), 0)
			}
			return err
		}},
		{"requests", func(c *mpi.Comm, b *buffers) (err error) {
			rs := reqs[c.Rank()][:]
			if rs[0], err = mpi.Irecv(c, b.small, 1-c.Rank(), 0); err != nil {
				return err
			}
			if rs[1], err = mpi.Isend(c, b.small2, 1-c.Rank(), 0); err != nil {
				return err
			}
			if _, _, err = mpi.Waitany(rs); err != nil {
				return err
			}
			return mpi.WaitallInto(rs, nil)
		}},
		{"Barrier", func(c *mpi.Comm, b *buffers) error { return mpi.Barrier(c) }},
		{"Bcast", func(c *mpi.Comm, b *buffers) error { return all(mpi.Bcast(c, b.small, 0), mpi.Barrier(c)) }},
		{"Allreduce", func(c *mpi.Comm, b *buffers) error { return mpi.Allreduce(c, b.small, b.small2, sum) }},
		{"long Allreduce", func(c *mpi.Comm, b *buffers) error { return mpi.AllreduceInPlace(c, b.large, sum) }},
		{"Alltoall", func(c *mpi.Comm, b *buffers) error { return mpi.Alltoall(c, b.small, b.small2) }},
		{"Allgather", func(c *mpi.Comm, b *buffers) error { return mpi.Allgather(c, b.small[:4], b.small2) }},
		{"Gather", func(c *mpi.Comm, b *buffers) error {
			return all(mpi.Gather(c, b.small[:4], b.small2, 1), mpi.Barrier(c))
		}},
		{"Scan", func(c *mpi.Comm, b *buffers) error { return all(mpi.Scan(c, b.small, b.small2, sum), mpi.Barrier(c)) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				b := &buffers{f(len(small)), f(len(small)), f(len(large)), f(len(large))}
				const windows, warm, runs = 4, 300, 1000
				var before, after runtime.MemStats
				least := uint64(1 << 62)
				for w := range windows {
					for i := range warm + runs {
						if i == warm && c.Rank() == 0 {
							runtime.ReadMemStats(&before)
						}
						if err := x.call(c, b); err != nil {
							return err
						}
					}
					if c.Rank() == 0 {
						runtime.ReadMemStats(&after)
						least = min(least, after.Mallocs-before.Mallocs)
					}
					if err := mpi.Barrier(c); err != nil {
						return err
					}
					if w == windows-1 && c.Rank() == 0 && least > runs/10 {
						return fmt.Errorf("%d allocations in %d rounds", least, runs)
					}
				}
				return mpi.Barrier(c)
			})
		})
	}
}

type buffers struct{ small, small2, large, large2 []float64 }

// The types of a program are looked at once.
func TestTypeLookupAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		_ = mpi.CountOf[point](mpi.Status{Bytes: 32})
		_ = mpi.CountOf[float64](mpi.Status{Bytes: 32})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPingPong(b *testing.B) {
	b.ReportAllocs()
	mpitest.Run(b, 2, func(c *mpi.Comm) error {
		buf := make([]byte, 8)
		for range b.N {
			if c.Rank() == 0 {
				if err := mpi.Send(c, buf, 1, 0); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(c, buf, 1-c.Rank(), 0); err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := mpi.Send(c, buf, 0, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func BenchmarkSelf(b *testing.B) {
	b.ReportAllocs()
	mpitest.Run(b, 1, func(c *mpi.Comm) error {
		buf := make([]byte, 8)
		for range b.N {
			if err := mpi.Send(c, buf, 0, 0); err != nil {
				return err
			}
			if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkAllreduce(b *testing.B) {
	for _, n := range []int{1, 1 << 17} {
		b.Run(fmt.Sprint(8*n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			mpitest.Run(b, 4, func(c *mpi.Comm) error {
				buf := make([]float64, n)
				for range b.N {
					if err := mpi.AllreduceInPlace(c, buf, mpi.Sum[float64]()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
