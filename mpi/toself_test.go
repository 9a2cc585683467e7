package mpi_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Whatever way a rank sends to itself, whatever way it receives, whichever comes first, and however long the message is:
// it arrives once.
func TestToSelf(t *testing.T) {
	type buffer = []int32
	begun := func(f func(c *mpi.Comm, b buffer, dst, tag int) (mpi.Request, error)) func(*mpi.Comm, buffer) mpi.Request {
		return func(c *mpi.Comm, b buffer) mpi.Request { return must(f(c, b, c.Rank(), 3)) }
	}
	kept := func(f func(c *mpi.Comm, b buffer, dst, tag int) (*mpi.Persistent, error)) func(*mpi.Comm, buffer) mpi.Request {
		return func(c *mpi.Comm, b buffer) mpi.Request { return must(must(f(c, b, c.Rank(), 3)).Start()) }
	}
	sends := map[string]func(*mpi.Comm, buffer) mpi.Request{
		"Isend": begun(mpi.Isend[int32]), "Issend": begun(mpi.Issend[int32]), "Ibsend": begun(mpi.Ibsend[int32]),
		"SendInit": kept(mpi.SendInit[int32]), "SsendInit": kept(mpi.SsendInit[int32]), "BsendInit": kept(mpi.BsendInit[int32]),
		"IsendView": func(c *mpi.Comm, b buffer) mpi.Request {
			return must(mpi.IsendView(c, mpi.View[int32]{Data: b, Layout: mpi.Contiguous(len(b))}, c.Rank(), 3))
		},
	}
	recvs := map[string]func(*mpi.Comm, buffer) (mpi.Status, error){
		"Recv":     func(c *mpi.Comm, b buffer) (mpi.Status, error) { return mpi.Recv(c, b, c.Rank(), 3) },
		"Recv any": func(c *mpi.Comm, b buffer) (mpi.Status, error) { return mpi.Recv(c, b, mpi.AnySource, mpi.AnyTag) },
		"Probe": func(c *mpi.Comm, b buffer) (mpi.Status, error) {
			if st, err := c.Probe(mpi.AnySource, 3); err != nil || st.Count != len(b) {
				return st, fmt.Errorf("Probe: %+v, %w", st, err)
			}
			return mpi.Recv(c, b, c.Rank(), 3)
		},
		"Mprobe": func(c *mpi.Comm, b buffer) (mpi.Status, error) {
			m, _, err := c.Mprobe(c.Rank(), mpi.AnyTag)
			if err != nil {
				return mpi.Status{}, err
			}
			return must(mpi.Imrecv(m, b)).Wait()
		},
	}
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		for _, n := range []int{0, 1, 40_000} {
			out := values(n, c.Rank(), func(i int) int32 { return int32(i) })
			arrived := func(how string, in buffer, st mpi.Status, err error) error {
				return all(err, wantStatus(st, c.Rank(), 3, n), want(fmt.Sprint(how, ", ", n), in, out))
			}
			for _, send := range slices.Sorted(maps.Keys(sends)) {
				for _, recv := range slices.Sorted(maps.Keys(recvs)) {
					in := make(buffer, n)
					r := sends[send](c, out)
					st, err := recvs[recv](c, in)
					if err := all(arrived(send+" before "+recv, in, st, err), errOf(r.Wait())); err != nil {
						return err
					}
				}
				in := make(buffer, n)
				early := must(mpi.Irecv(c, in, mpi.AnySource, 3))
				r := sends[send](c, out)
				st, err := early.Wait()
				if err := all(arrived(send+" after Irecv", in, st, err), errOf(r.Wait())); err != nil {
					return err
				}
			}
			for name, send := range map[string]func(*mpi.Comm, buffer, int, int) error{"Send": mpi.Send[int32], "Ssend": mpi.Ssend[int32], "Bsend": mpi.Bsend[int32], "Rsend": mpi.Rsend[int32]} {
				in := make(buffer, n)
				early := must(mpi.Irecv(c, in, c.Rank(), 3))
				err := send(c, out, c.Rank(), 3)
				st, werr := early.Wait()
				if err := all(err, arrived(name, in, st, werr)); err != nil {
					return err
				}
			}
			in := make(buffer, n)
			st, err := mpi.Sendrecv(c, out, c.Rank(), 3, in, c.Rank(), 3)
			same := slices.Clone(out)
			rst, rerr := mpi.SendrecvReplace(c, same, c.Rank(), 3, c.Rank(), 3)
			if err := all(arrived("Sendrecv", in, st, err), arrived("SendrecvReplace", same, rst, rerr)); err != nil {
				return err
			}
		}
		return nil
	})
}
