package mpitest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestRun(t *testing.T) {
	for _, n := range []int{1, 2, 9} {
		var ran atomic.Int32
		mpitest.Run(t, n, func(c *mpi.Comm) error {
			ran.Add(1)
			if c.Size() != n || c.String() != "world" || c.Self().Size() != 1 {
				return fmt.Errorf("rank %d of %d on %v", c.Rank(), c.Size(), c)
			}
			return mpi.Barrier(c)
		})
		if int(ran.Load()) != n {
			t.Errorf("%d of %d ranks ran", ran.Load(), n)
		}
	}
}

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	errors []string
	failed bool
}

func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) FailNow() { r.failed = true }

// However a rank fails, the test names it and the blocked others end.
func TestFailures(t *testing.T) {
	for _, x := range []struct {
		name, says string
		fail       func(c *mpi.Comm) error
	}{
		{"error", "rank 2 of 4: no bread", func(*mpi.Comm) error { return errors.New("no bread") }},
		{"panic", "rank 2 of 4: panic: no milk", func(*mpi.Comm) error { panic("no milk") }},
		{"FailNow", "rank 2 of 4: it ended without returning", func(*mpi.Comm) error { runtime.Goexit(); return nil }},
		{"left over", "rank 2 of 4: mpi: Finalize on world, rank 2 of 4: requests are left over: 1: Irecv(source 0", func(c *mpi.Comm) error {
			_, err := mpi.Irecv(c, []int{0}, 0, 0)
			return err
		}},
		{"Abort", "rank 2 of 4: Abort was called with status 3", func(c *mpi.Comm) error { mpi.Abort(c, 3); return nil }},
	} {
		t.Run(x.name, func(t *testing.T) {
			rec := &recorder{TB: t}
			mpitest.Run(rec, 4, func(c *mpi.Comm) error {
				switch c.Rank() {
				case 2:
					return x.fail(c)
				case 3:
					return mpi.Barrier(c)
				}
				_, err := mpi.Recv(c, []int{0}, mpi.AnySource, 0)
				return err
			})
			if !rec.failed || len(rec.errors) != 1 || !strings.Contains(rec.errors[0], x.says) {
				t.Errorf("%q", rec.errors)
			}
		})
	}
}

// Ranks that hang are ended, and the test tells what each was waiting for.
func TestHang(t *testing.T) {
	rec := &recorder{TB: t}
	mpitest.RunWithin(rec, 300*time.Millisecond, 4, func(c *mpi.Comm) error {
		switch c.Rank() {
		case 0:
			_, err := mpi.Recv(c, []int{0}, 3, 7)
			return err
		case 1:
			failed := make(chan error)
			go func() { failed <- mpi.Barrier(c) }()
			return <-failed
		case 2:
			return mpi.Barrier(c)
		}
		return nil
	})
	if !rec.failed || len(rec.errors) != 1 {
		t.Fatalf("%q", rec.errors)
	}
	for _, want := range []string{
		"the ranks have not ended within 300ms:", "\n\trank 0: mpi.Recv at ", "mpitest_test.go:", ": Recv(source 3, tag 7, ",
		"\n\trank 1: mpi.Barrier at ", "\n\trank 2: mpi.Barrier at ", "\n\trank 3: has returned",
	} {
		if !strings.Contains(rec.errors[0], want) {
			t.Errorf("%s lacks %q", rec.errors[0], want)
		}
	}
}

// A rank that returns while the others wait for it in a collective is as one in Finalize: they are told.
func TestReturnsEarly(t *testing.T) {
	rec := &recorder{TB: t}
	told := make([]error, 3)
	mpitest.RunWithin(rec, time.Minute, 3, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		told[c.Rank()] = mpi.Barrier(c)
		return told[c.Rank()]
	})
	if !rec.failed || !errors.Is(told[0], mpi.ErrMismatch) && !errors.Is(told[2], mpi.ErrMismatch) {
		t.Errorf("%q, %q", rec.errors, told)
	}
}

// A rank that hangs outside the library does not keep the test from failing.
func TestHangElsewhere(t *testing.T) {
	rec := &recorder{TB: t}
	free, ended := make(chan struct{}), make(chan struct{})
	mpitest.RunWithin(rec, 100*time.Millisecond, 2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Barrier(c)
		}
		defer close(ended)
		<-free
		return nil
	})
	if !rec.failed || len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "the ranks have not ended within 100ms:\n\trank 0: mpi.Barrier at ") || !strings.Contains(rec.errors[0], "\n\trank 1: ") {
		t.Errorf("%q", rec.errors)
	}
	close(free) // or the goroutine stays
	<-ended
}

// deadlined is a test whose time is nearly over.
type deadlined struct{ recorder }

func (*deadlined) Deadline() (time.Time, bool) { return time.Now().Add(100 * time.Millisecond), true }

// A test that hangs fails before its process is ended.
func TestHangBeforeDeadline(t *testing.T) {
	rec := &deadlined{recorder{TB: t}}
	mpitest.Run(rec, 2, func(c *mpi.Comm) error {
		_, err := mpi.Recv(c, []int{0}, 1-c.Rank(), 0)
		return err
	})
	if !rec.failed || len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "ranks 0-1: mpi.Recv at ") {
		t.Errorf("%q", rec.errors)
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		mpitest.Run(t, 4, mpi.Barrier)
	}
	for runtime.NumGoroutine() > before { // for ever if one is
		runtime.Gosched()
	}
}

func TestNoRanks(t *testing.T) {
	rec := &recorder{TB: t}
	mpitest.Run(rec, 0, mpi.Barrier)
	if !rec.failed || len(rec.errors) != 1 {
		t.Errorf("%q", rec.errors)
	}
}

func ExampleExample() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		sum := []int{0}
		err := mpi.Reduce(c, []int{c.Rank()}, sum, mpi.Sum, 0)
		if err == nil && c.Rank() == 0 {
			fmt.Println("sum", sum[0])
		}
		return err
	})
	// Output: sum 3
}
