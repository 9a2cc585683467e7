package mpi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	gorun "github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// on runs f on n ranks.
func on(t *testing.T, n int, f func(o Communicator) error) {
	t.Helper()
	mpitest.Run(t, n, func(c *gorun.Comm) error { return f(Wrap(c)) })
}

// same returns an error if got is not want.
func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// pass sends slices of several lengths, none among them, from rank 0 to 1 and back in all ways that there are for T.
func pass[T any](o Communicator, d DataType, v T, sendAll func([]T, int, int), into func([]T, int, int) Status, recv func(int, int) ([]T, Status),
	send1 func(T, int, int), recv1 func(int, int) (T, Status)) error {
	peer := 1 - o.Rank()
	for _, n := range []int{0, 1, 5, 3000} {
		vals := make([]T, n)
		for i := range vals {
			vals[i] = v
		}
		if o.Rank() == 0 {
			sendAll(vals, peer, n)
			got, s := recv(MPI_ANY_SOURCE, MPI_ANY_TAG)
			if err := same("sent back", got, vals); err != nil {
				return err
			}
			if err := same("status", []int{s.GetSource(), s.GetTag(), s.GetCount(d), s.GetError()}, []int{peer, n + 1, n, 0}); err != nil {
				return err
			}
			continue
		}
		got := make([]T, n+2)
		s := into(got, peer, n)
		if err := same("count", s.GetCount(d), n); err != nil {
			return err
		}
		if err := same("received", got[:n], vals); err != nil {
			return err
		}
		sendAll(got[:n], peer, n+1)
	}
	if o.Rank() == 0 {
		send1(v, peer, 7)
		return nil
	}
	got, s := recv1(peer, 7)
	if err := same("one", got, v); err != nil {
		return err
	}
	return same("count of one", s.GetCount(d), 1)
}

func TestMessages(t *testing.T) {
	for name, f := range map[string]func(o Communicator) error{
		"byte": func(o Communicator) error {
			return pass(o, Byte, 200, o.SendBytes, o.RecvPreallocBytes, o.RecvBytes, o.SendByte, o.RecvByte)
		},
		"uint32": func(o Communicator) error {
			return pass(o, Uint, 1<<31, o.SendUInt32s, o.RecvPreallocUint32s, o.RecvUint32s, o.SendUint32, o.RecvUint32)
		},
		"int32": func(o Communicator) error {
			return pass(o, Int, -1<<31, o.SendInt32s, o.RecvPreallocInt32s, o.RecvInt32s, o.SendInt32, o.RecvInt32)
		},
		"uint64": func(o Communicator) error {
			return pass(o, Ulong, 1<<63, o.SendUint64s, o.RecvPreallocUint64s, o.RecvUint64s, o.SendUint64, o.RecvUint64)
		},
		"int64": func(o Communicator) error {
			return pass(o, Long, -1<<63, o.SendInt64s, o.RecvPreallocInt64s, o.RecvInt64s, o.SendInt64, o.RecvInt64)
		},
		"float64": func(o Communicator) error {
			return pass(o, Double, 0.1, o.SendFloat64s, o.RecvPreallocFloat64s, o.RecvFloat64s, o.SendFloat64, o.RecvFloat64)
		},
		"complex128": func(o Communicator) error {
			return pass(o, Complex, 1-2i, o.SendComplex128s, o.RecvPreallocComplex128s, o.RecvComplex128s, o.SendComplex128, o.RecvComplex128)
		},
	} {
		t.Run(name, func(t *testing.T) { on(t, 2, f) })
	}
}

func TestStrings(t *testing.T) {
	on(t, 2, func(o Communicator) error {
		for _, s := range []string{"", "grüß", strings.Repeat("x", 10000)} {
			if o.Rank() == 0 {
				o.SendString(s, 1, 3)
				continue
			}
			got, st := o.RecvString(0, 3)
			if err := same("string", got, s); err != nil {
				return err
			}
			if err := same("status", []int{st.GetSource(), st.GetTag(), st.GetCount(Byte)}, []int{0, 3, len(s)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestProbes(t *testing.T) {
	on(t, 2, func(o Communicator) error {
		if o.Rank() == 0 {
			o.SendBytes(make([]byte, 12), 1, 5)
			o.SendBytes([]byte("taken"), 1, 6)
			o.SendBytes([]byte("next"), 1, 6)
			o.Barrier()
			return nil
		}
		s := o.Probe(MPI_ANY_SOURCE, 5)
		// 12 bytes are 3 words of 4, and no whole number of words of 8.
		if err := same("counts", []int{s.GetSource(), s.GetTag(), s.GetCount(Byte), s.GetCount(Int), s.GetCount(Double), s.GetCount(99)},
			[]int{0, 5, 12, 3, gorun.Undefined, gorun.Undefined}); err != nil {
			return err
		}
		if ok, _ := o.Iprobe(0, 99); ok {
			return fmt.Errorf("a message that nobody has sent")
		}
		o.RecvPreallocBytes(make([]byte, 12), 0, 5)
		s, m := o.Mprobe(0, 6)
		next, _ := o.MrecvBytes(0, 6)
		taken := make([]byte, s.GetCount(Byte))
		if st := o.MrecvPreallocBytes(taken, 0, 6, m); st.GetCount(Byte) != len("taken") || st.GetTag() != 6 {
			return fmt.Errorf("%+v", st)
		}
		if err := same("messages", []string{string(taken), string(next)}, []string{"taken", "next"}); err != nil {
			return err
		}
		o.Barrier()
		ok, _ := o.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG)
		return same("left", ok, false)
	})
}

// Iprobe tells what it finds.
func TestIprobe(t *testing.T) {
	on(t, 2, func(o Communicator) error {
		if o.Rank() == 0 {
			o.SendInt64s([]int64{1, 2, 3}, 1, 9)
			return nil
		}
		ok, s := o.Iprobe(0, 9)
		for !ok {
			ok, s = o.Iprobe(0, 9)
		}
		if err := same("status", []int{s.GetSource(), s.GetTag(), s.GetCount(Long)}, []int{0, 9, 3}); err != nil {
			return err
		}
		got, _ := o.RecvInt64s(0, 9)
		return same("received", got, []int64{1, 2, 3})
	})
}

// cast broadcasts from every rank. The elements behind the slice stay: the original's BcastBytes writes them.
func cast[T comparable](o Communicator, v, guard T, bcast func([]T, int)) error {
	for root := range o.Size() {
		all := []T{v, v, v, guard, guard, guard, guard, guard, guard, guard, guard, guard, guard}
		x := all[:3]
		if o.Rank() != root {
			clear(x)
		}
		bcast(x, root)
		bcast(nil, root)
		for i, got := range all {
			if want := map[bool]T{true: v, false: guard}[i < 3]; got != want {
				return fmt.Errorf("root %d: element %d is %v, want %v", root, i, got, want)
			}
		}
	}
	return nil
}

func TestBcast(t *testing.T) {
	on(t, 4, func(o Communicator) error {
		for _, err := range []error{
			cast(o, 1, 2, o.BcastBytes), cast(o, 1, 2, o.BcastUint32s), cast(o, 1, 2, o.BcastInt32s), cast(o, 1, 2, o.BcastUint64s),
			cast(o, 1, 2, o.BcastInt64s), cast(o, 1, 2, o.BcastFloat32s), cast(o, 1, 2, o.BcastFloat64s), cast(o, 1, 2i, o.BcastComplex128s),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestCommunicators(t *testing.T) {
	on(t, 4, func(o Communicator) error {
		if n, err := o.GetMaxTag(); n != gorun.MaxTag || err != nil {
			return fmt.Errorf("largest tag %d, %v", n, err)
		}
		if _, found, err := o.GetAttr(12345); found || err != nil {
			return fmt.Errorf("an attribute that nobody has set: %v", err)
		}
		rank := o.Rank()
		some := among(o.Comm(), []int{3, 1})
		if rank%2 == 0 {
			if _, err := some.GetMaxTag(); err == nil {
				return fmt.Errorf("no error outside of the communicator")
			}
			return same("rank and size outside", []int{some.Rank(), some.Size()}, []int{gorun.Undefined, 0})
		}
		if err := same("rank and size", []int{some.Rank(), some.Size()}, []int{(3 - rank) / 2, 2}); err != nil {
			return err
		}
		// Messages stay in their communicator.
		if rank == 3 {
			o.SendInt32(1, 1, 0)
			some.SendInt32(2, 1, 0)
		} else {
			v, _ := some.RecvInt32(MPI_ANY_SOURCE, MPI_ANY_TAG)
			w, s := o.RecvInt32(MPI_ANY_SOURCE, MPI_ANY_TAG)
			if err := same("messages", []int32{v, w, int32(s.GetSource())}, []int32{2, 1, 3}); err != nil {
				return err
			}
		}
		some.Barrier()
		return same("the world", among(o.Comm(), nil).Comm() == o.Comm(), true)
	})
}

// A call that fails ends the job, and Abort does.
func TestFailuresEndTheJob(t *testing.T) {
	for name, f := range map[string]func(o Communicator){
		"no such rank": func(o Communicator) { o.SendByte(0, 7, 0) },
		"cut": func(o Communicator) {
			o.SendInt64s([]int64{1, 2}, 0, 0)
			o.RecvPreallocInt64s(make([]int64, 1), 0, 0)
		},
		"Abort": func(o Communicator) { o.Abort(3) },
	} {
		rec := &recorder{TB: t}
		mpitest.Run(rec, 1, func(c *gorun.Comm) error { f(Wrap(c)); return nil })
		if !rec.failed || !strings.Contains(rec.text, "Abort was called with status") {
			t.Errorf("%s: %q", name, rec.text)
		}
	}
}

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	text   string
	failed bool
}

func (r *recorder) Errorf(f string, args ...any) { r.text += fmt.Sprintf(f, args...) }
func (r *recorder) FailNow()                     { r.failed = true }
