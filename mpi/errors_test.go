package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Wrong arguments are found at the call, on one rank alone.
func TestArguments(t *testing.T) {
	type linked struct {
		Next *linked
	}
	mpitest.Run(t, 2, func(world *mpi.Comm) error {
		freed, err := world.Dup()
		if err != nil {
			return err
		}
		if err := freed.Free(); err != nil {
			return err
		}
		c, one := world, []int{1}
		recv := func(_ any, err error) error { return err }
		recv2 := func(_, _ any, err error) error { return err }
		sum := mpi.Sum[int]
		for _, x := range []struct {
			name  string
			class error
			err   error
		}{
			{"Send to 2", mpi.ErrRank, mpi.Send(c, one, 2, 0)},
			{"Send to -1", mpi.ErrRank, mpi.Send(c, one, -1, 0)},
			{"Send tag -1", mpi.ErrTag, mpi.Send(c, one, 0, -1)},
			{"Send tag 2^31", mpi.ErrTag, mpi.Send(c, one, 0, 1<<31)},
			{"Ssend to 9", mpi.ErrRank, mpi.Ssend(c, one, 9, 0)},
			{"Isend to 9", mpi.ErrRank, recv(mpi.Isend(c, one, 9, 0))},
			{"Irecv from 9", mpi.ErrRank, recv(mpi.Irecv(c, one, 9, 0))},
			{"Recv from 2", mpi.ErrRank, recv(mpi.Recv(c, one, 2, 0))},
			{"Recv tag -2", mpi.ErrTag, recv(mpi.Recv(c, one, 0, -2))},
			{"Probe 2", mpi.ErrRank, recv(c.Probe(2, 0))},
			{"nil comm Send", mpi.ErrComm, mpi.Send((*mpi.Comm)(nil), one, 0, 0)},
			{"nil comm Recv", mpi.ErrComm, recv(mpi.Recv((*mpi.Comm)(nil), one, 0, 0))},
			{"nil comm Probe", mpi.ErrComm, recv((*mpi.Comm)(nil).Probe(0, 0))},
			{"nil comm Barrier", mpi.ErrComm, mpi.Barrier(nil)},
			{"nil comm Bcast", mpi.ErrComm, mpi.Bcast(nil, one, 0)},
			{"nil comm Allreduce", mpi.ErrComm, mpi.Allreduce(nil, one, []int{0}, sum)},
			{"nil comm Gatherv", mpi.ErrComm, mpi.Gatherv(nil, one, nil, nil, nil, 0)},
			{"nil comm AllgatherInPlace", mpi.ErrComm, mpi.AllgatherInPlace(nil, one)},
			{"nil comm Dup", mpi.ErrComm, recv((*mpi.Comm)(nil).Dup())},
			{"nil comm Free", mpi.ErrComm, (*mpi.Comm)(nil).Free()},
			{"zero comm Send", mpi.ErrComm, mpi.Send(&mpi.Comm{}, one, 0, 0)},
			{"zero comm Barrier", mpi.ErrComm, mpi.Barrier(&mpi.Comm{})},
			{"zero comm Gatherv", mpi.ErrComm, mpi.Gatherv(&mpi.Comm{}, one, nil, nil, nil, 0)},
			{"zero comm Scatterv", mpi.ErrComm, mpi.ScattervInPlace(&mpi.Comm{}, one, nil, nil, 0)},
			{"zero comm ReduceScatter", mpi.ErrComm, mpi.ReduceScatter(&mpi.Comm{}, one, one, []int{1}, sum)},
			{"zero comm Alltoallv", mpi.ErrComm, mpi.Alltoallv(&mpi.Comm{}, one, []int{1}, nil, one, []int{1}, nil)},
			{"zero comm Split", mpi.ErrComm, recv((&mpi.Comm{}).Split(0, 0))},
			{"zero comm Free", mpi.ErrComm, (&mpi.Comm{}).Free()},
			{"zero comm Mprobe", mpi.ErrComm, recv2((&mpi.Comm{}).Mprobe(0, 0))},
			{"nil comm WithCodec", mpi.ErrComm, mpi.SendObject((*mpi.Comm)(nil).WithCodec(mpi.Gob), 1, 0, 0)},
			{"zero comm WithContext", mpi.ErrComm, mpi.Send((&mpi.Comm{}).WithContext(ended()), one, 0, 0)},
			{"zero comm RecvObject", mpi.ErrComm, recv(mpi.RecvObject(&mpi.Comm{}, new(int), 0, 0))},
			{"no function", mpi.ErrOp, mpi.AllreduceInPlace(c, one, mpi.OpFunc[int](nil, true))},
			{"freed Send", mpi.ErrComm, mpi.Send(freed, one, 0, 0)},
			{"freed Barrier", mpi.ErrComm, mpi.Barrier(freed)},
			{"freed Free", mpi.ErrComm, freed.Free()},
			{"freed Split", mpi.ErrComm, recv(freed.Split(0, 0))},
			{"world Free", mpi.ErrComm, c.Free()},
			{"self Free", mpi.ErrComm, c.Self().Free()},
			{"Split colour -5", mpi.ErrComm, recv(c.Split(-5, 0))},
			{"pointers", mpi.ErrType, mpi.Send(c, []linked{{}}, 0, 0)},
			{"strings", mpi.ErrType, mpi.Send(c, []string{"a"}, 0, 0)},
			{"slices", mpi.ErrType, recv(mpi.Recv(c, [][]int{{}}, 0, 0))},
			{"interfaces", mpi.ErrType, mpi.SendValue[any](c, 1, 0, 0)},
			{"nothing", mpi.ErrType, mpi.Send(c, []struct{}{{}}, 0, 0)},
			{"array of maps", mpi.ErrType, mpi.Bcast(c, [][2]map[int]int{}, 0)},
			{"Sendrecv overlap", mpi.ErrBuffer, recv(mpi.Sendrecv(c, one, 0, 0, one, 0, 0))},
			{"root 2", mpi.ErrRank, mpi.Bcast(c, one, 2)},
			{"root -1", mpi.ErrRank, mpi.Reduce(c, one, []int{0}, sum, -1)},
			{"no operator", mpi.ErrOp, mpi.AllreduceInPlace[int](c, one, nil)},
			{"Allreduce lengths", mpi.ErrCount, mpi.Allreduce(c, one, []int{}, sum)},
			{"Allreduce overlap", mpi.ErrBuffer, mpi.Allreduce(c, one, one, sum)},
			{"Allgather lengths", mpi.ErrCount, mpi.Allgather(c, one, []int{0})},
			{"Alltoall lengths", mpi.ErrCount, mpi.Alltoall(c, []int{1, 2, 3}, []int{1, 2, 3})},
			{"Allgatherv counts", mpi.ErrCount, mpi.Allgatherv(c, one, []int{1, 2}, []int{1}, nil)},
			{"Allgatherv outside", mpi.ErrCount, mpi.Allgatherv(c, one, []int{1, 2}, []int{1, 1}, []int{0, 2})},
			{"Allgatherv negative", mpi.ErrCount, mpi.Allgatherv(c, one, []int{1, 2}, []int{1, -1}, nil)},
			{"Scan lengths", mpi.ErrCount, mpi.Scan(c, one, []int{}, sum)},
			{"ReduceScatter counts", mpi.ErrCount, mpi.ReduceScatter(c, one, one, []int{1, 1}, sum)},
			{"inactive Mrecv", mpi.ErrRequest, recv(mpi.Mrecv(mpi.Message{}, one))},
		} {
			if err := wantErr(x.name, x.err, x.class); err != nil {
				return err
			}
		}
		return mpi.Barrier(c) // all that has done no harm
	})
}

func TestErrorText(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return mpi.Send(c, []int{1, 2, 3}, 0, 7)
		}
		_, err := mpi.Recv(c, []int{0}, 1, 7)
		for _, part := range []string{"Recv(source 1, tag 7)", "world", "rank 0 of 2", "24 bytes", "RecvAlloc"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				return fmt.Errorf("%q does not say %q", fmt.Sprint(err), part)
			}
		}
		err = mpi.Send(c, []map[int]*int{}, 0, 0)
		if err == nil || !strings.Contains(err.Error(), "map[int]*int") {
			return fmt.Errorf("%q does not name the type", fmt.Sprint(err))
		}
		return nil
	})
}

// enders are the calls that end a request, or a single one of several.
var enders = map[string]func(rs []mpi.Request) error{
	"Wait":     func(rs []mpi.Request) error { _, err := rs[0].Wait(); return err },
	"Test":     func(rs []mpi.Request) error { _, _, err := rs[0].Test(); return err },
	"Waitall":  func(rs []mpi.Request) error { _, err := mpi.Waitall(rs); return err },
	"Waitany":  func(rs []mpi.Request) error { _, _, err := mpi.Waitany(rs); return err },
	"Waitsome": func(rs []mpi.Request) error { _, _, err := mpi.Waitsome(rs); return err },
	"Testall":  func(rs []mpi.Request) error { _, _, err := mpi.Testall(rs); return err },
	"Testany":  func(rs []mpi.Request) error { _, _, _, err := mpi.Testany(rs); return err },
	"Testsome": func(rs []mpi.Request) error { _, _, err := mpi.Testsome(rs); return err },
	"Cancel":   func(rs []mpi.Request) error { return rs[0].Cancel() },
}

// TestRequestErrors: the call that fails is named first, then the one that made the
// request.
func TestRequestErrors(t *testing.T) {
	for call, end := range enders {
		mpitest.Run(t, 1, func(c *mpi.Comm) error {
			r, err := mpi.Irecv(c, []int{0}, 0, 7)
			if err != nil {
				return err
			}
			if err := mpi.Send(c, []int{1, 2, 3}, 0, 7); err != nil {
				return err
			}
			says := "mpi: " + call + " of Irecv(source 0, tag 7) on world, rank 0 of 1: "
			if call == "Testall" {
				says = strings.Replace(says, call, "Waitall", 1) // which it is when all are complete
			}
			if call == "Cancel" {
				r.Wait()
			} else if err := end([]mpi.Request{r}); !errors.Is(err, mpi.ErrTruncate) || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("%s: %v", call, err)
			}
			if err := end([]mpi.Request{r}); !errors.Is(err, mpi.ErrRequest) || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("%s of a stale request: %v", call, err)
			}
			return nil
		})
	}
}

func TestTruncation(t *testing.T) {
	for _, n := range []int{2, 100_000} {
		for _, posted := range []bool{true, false} {
			t.Run(fmt.Sprint(n, posted), func(t *testing.T) {
				mpitest.Run(t, 2, func(c *mpi.Comm) error {
					buf := make([]int32, n+1)
					if c.Rank() == 1 {
						if posted {
							if _, err := mpi.Recv(c, []int8{}, 0, 1); err != nil { // it is posted
								return err
							}
						}
						r, err := mpi.Isend(c, values(n, 0, func(i int) int32 { return int32(i) }), 0, 2)
						if err != nil {
							return err
						}
						if err := mpi.Send(c, []int8{}, 0, 1); err != nil { // it is sent
							return err
						}
						_, err = r.Wait()
						return err
					}
					var r mpi.Request
					var err error
					if posted {
						if r, err = mpi.Irecv(c, buf[:n-1], 1, 2); err != nil {
							return err
						}
						if err = mpi.Send(c, []int8{}, 1, 1); err != nil {
							return err
						}
					}
					if _, err = mpi.Recv(c, []int8{}, 1, 1); err != nil {
						return err
					}
					if !posted {
						if r, err = mpi.Irecv(c, buf[:n-1], 1, 2); err != nil {
							return err
						}
					}
					st, err := r.Wait()
					want := values(n+1, 0, func(i int) int32 { return int32(i) })
					want[n-1], want[n] = 0, 0
					return all(wantErr("cut", err, mpi.ErrTruncate), wantStatus(st, 1, 2, n-1), wantSlice("what fits", buf, want))
				})
			})
		}
	}
}

func wantSlice[T comparable](what string, got, expect []T) error { return want(what, got, expect) }

func wantStatus(st mpi.Status, source, tag, count int) error {
	if st.Source != source || st.Tag != tag || st.Count != count {
		return fmt.Errorf("status %+v, want source %d, tag %d, count %d", st, source, tag, count)
	}
	return nil
}

func TestTypeMismatch(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return all(mpi.Send(c, []float64{1}, 0, 0), mpi.Send(c, []float64{2}, 0, 0), mpi.Send(c, []point{{X: 3}}, 0, 0))
		}
		_, err := mpi.Recv(c, []int64{0}, 1, 0)
		if err := wantErr("float64 as int64", err, mpi.ErrType); err != nil {
			return err
		}
		v := []float64{0}
		if _, err := mpi.Recv(c, v, 1, 0); err != nil || v[0] != 2 {
			return fmt.Errorf("the message of another type was not consumed: %v %w", v, err)
		}
		type same struct { // another name, the same layout
			A, B float64
			C    [3]uint16
			D    bool
		}
		s := []same{{}}
		if _, err := mpi.Recv(c, s, 1, 0); err != nil || s[0].A != 3 {
			return fmt.Errorf("a type of the same layout: %v %w", s, err)
		}
		return nil
	})
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A value that is no communicator has no ranks, and neither have its views.
func TestNoComm(t *testing.T) {
	for _, c := range []*mpi.Comm{nil, {}} {
		for _, v := range []*mpi.Comm{c, c.WithCodec(nil), c.WithContext(ended()), c.Self()} {
			if v.Rank() != mpi.Undefined || v.Size() != 0 || v.WorldRank(0) != mpi.Undefined || v.FromWorld(0) != mpi.Undefined {
				t.Errorf("rank %d of %d, in the world %d, of the world %d", v.Rank(), v.Size(), v.WorldRank(0), v.FromWorld(0))
			}
			if got := v.String(); got != "no communicator" {
				t.Errorf("it is called %q", got)
			}
		}
	}
}

// A nil setting of a view is the setting that every communicator has.
func TestNilView(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		c = c.WithCodec(jsonCodec{}).WithCodec(nil).WithContext(nil) //nolint:staticcheck // nil is allowed here
		if err := mpi.SendObject(c, "a", 0, 0); err != nil {
			return err
		}
		var s string
		if _, err := mpi.RecvObject(c, &s, 0, 0); err != nil || s != "a" {
			return fmt.Errorf("%q %w", s, err)
		}
		return nil
	})
}

// Remedies speak of what was wrong, and types have names.
func TestErrorWords(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if err := mpi.Bcast(c, []int{0}, 2); err == nil || strings.Contains(err.Error(), "ProcNull") || !strings.Contains(err.Error(), "root is one of") {
			return fmt.Errorf("a wrong root: %v", err)
		}
		if c.Rank() == 1 {
			return all(mpi.Send(c, []float64{1}, 0, 0), mpi.SendObject(c, 1, 0, 1), mpi.Send(c, []point{{}}, 0, 2))
		}
		for tag, name := range []string{"float64", "an object", "struct"} {
			_, err := mpi.Recv(c, []int64{0}, 1, tag)
			if err == nil || !strings.Contains(err.Error(), "sent "+name) || !strings.Contains(err.Error(), "wants int64") {
				return fmt.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
}

// An error tells rank, peer and tag as numbers, and which of several requests it is of.
func TestErrorFields(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		other := 1 - c.Rank()
		if err := mpi.Send(c, []int{1, 2}, other, 7); err != nil {
			return err
		}
		rs := make([]mpi.Request, 3)
		r, err := mpi.Irecv(c, []int{0}, other, 7) // too short
		if err != nil {
			return err
		}
		rs[2] = r
		_, err = mpi.Waitall(rs)
		var one *mpi.RequestError
		var what *mpi.Error
		if !errors.As(err, &one) || one.Index != 2 || !errors.As(err, &what) || what.Rank != c.Rank() || what.Size != 2 || what.Peer != other || what.Tag != 7 {
			return fmt.Errorf("%#v, %#v", one, what)
		}
		err = mpi.Bcast(c, []int{1}, 5)
		if !errors.As(err, &what) || what.Peer != mpi.Undefined || what.Tag != mpi.Undefined {
			return fmt.Errorf("Bcast: %#v", what)
		}
		return nil
	})
}

// The error of a call that consists of others has the name that the program knows.
func TestErrorsNameTheCall(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		for name, err := range map[string]error{
			"BcastValue(root 7, 1 int,":  err1(mpi.BcastValue(c, 1, 7)),
			"ReduceValue(root 7, 1 int,": err1(mpi.ReduceValue(c, 1, mpi.Sum, 7)),
			"AllreduceValue(1 int,":      err1(mpi.AllreduceValue(c, 1, nil)),
			"ScanValue(1 int,":           err1(mpi.ScanValue(c, 1, nil)),
			"BcastObject(root 7,":        err1(mpi.BcastObject(c, "x", 7)),
			"GatherObjects(root 7,":      err1(mpi.GatherObjects(c, "x", 7)),
			"ScatterObjects(root 7,":     err1(mpi.ScatterObjects(c, []string{"x"}, 7)),
			"AllgatherObjects":           err1(mpi.AllgatherObjects[int](nil, 1)),
			"GatherAlloc(root 7,":        err2(mpi.GatherAlloc(c, unit, 7)),
			"AllgatherAlloc(":            err2(mpi.AllgatherAlloc(c, pointers)),
			"AlltoallAlloc(":             err1(mpi.AlltoallAlloc[int](c, nil)),
			"SplitType(":                 err1(c.SplitType(77, 0)),
			"DupWithInfo(":               err1(c.DupWithInfo(mpi.Info{"coll.bcast": "by bike"})),
		} {
			var e *mpi.Error
			if !errors.As(err, &e) || !strings.HasPrefix(e.Call, name) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}
