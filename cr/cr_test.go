package cr_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
)

// ranks runs f as every rank of the cluster and returns their errors.
func ranks(c *jobtest.Cluster, f func(*mpi.Comm) error) func() []error {
	errs := make([]error, len(c.Jobs))
	var wg sync.WaitGroup
	for i, j := range c.Jobs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = world.Rank(j, f)
		}()
	}
	return func() []error { wg.Wait(); return errs }
}

func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// ring is a program whose messages cross every Point: what is sent in one
// iteration is received in the next, on a communicator of its own. It leaves
// each rank's sum in sums; at(iter) is called by rank 0 in each iteration.
func ring(iters int, sums []int, at func(iter int)) func(*mpi.Comm) error {
	return func(world *mpi.Comm) error {
		r := cr.On(world)
		side, err := world.Split(0, -world.Rank())
		if err != nil {
			return err
		}
		me, n := side.Rank(), side.Size()
		iter, sum, trail := 0, me+1, []int{}
		for name, p := range map[string]any{"iter": &iter, "sum": &sum, "trail": &trail} {
			if err := r.Register(name, p); err != nil {
				return err
			}
		}
		if !r.Restarted() {
			if err := mpi.Send(side, []int{sum}, (me+1)%n, 5); err != nil {
				return err
			}
		}
		for ; iter < iters; iter++ {
			if err := r.Point(); err != nil {
				return err
			}
			if world.Rank() == 0 {
				at(iter)
			}
			in := make([]int, 1)
			if _, err := mpi.Recv(side, in, (me+n-1)%n, 5); err != nil {
				return err
			}
			sum = sum*31 + in[0]
			trail = append(trail, in[0]%7)
			if err := mpi.Send(side, []int{sum}, (me+1)%n, 5); err != nil {
				return err
			}
		}
		last := make([]int, 1)
		if _, err := mpi.Recv(side, last, (me+n-1)%n, 5); err != nil {
			return err
		}
		for _, x := range trail {
			sum = sum*3 + x
		}
		sums[world.Rank()] = sum + last[0]
		return nil
	}
}

// gatekeeper lets a program wait, in the middle of its run, until a checkpoint
// that was asked for there has armed all ranks.
func gatekeeper() (asked, armed chan struct{}, onSend func(oob.Msg)) {
	asked, armed = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return asked, armed, func(m oob.Msg) {
		if m.Kind == oob.Target {
			once.Do(func() { close(armed) })
		}
	}
}

func TestMessagesCrossTheCut(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		for _, sparse := range []int{0, 1} {
			t.Run(fmt.Sprintf("%d ranks, sparse from %d", n, sparse), func(t *testing.T) {
				const iters = 40
				want := make([]int, n)
				c := jobtest.New(n, jobtest.Options{Dir: t.TempDir()})
				noErrors(t, ranks(c, ring(iters, want, func(int) {}))())
				c.Stop()

				// Snapshot after snapshot: each run starts from the last one's.
				var images []string
				for round := 1; round <= 3; round++ {
					asked, armed, onArmed := gatekeeper()
					c := jobtest.New(n, jobtest.Options{Dir: t.TempDir(), Images: images, SparseFrom: sparse, OnSend: onArmed})
					got := make([]int, n)
					wait := ranks(c, ring(iters, got, func(iter int) {
						if iter == round*10 {
							close(asked)
							<-armed
						}
					}))
					over := make(chan struct{})
					go func() { wait(); close(over) }()
					select {
					case <-asked:
					case <-over:
						t.Fatal("the run ended early: ", wait())
					}
					taken, err := c.Checkpoint(false)
					if err != nil {
						t.Fatal(err)
					}
					noErrors(t, wait())
					c.Stop()
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("round %d went on to %v, undisturbed %v", round, got, want)
					}
					images = taken
				}
				c = jobtest.New(n, jobtest.Options{Images: images})
				got := make([]int, n)
				noErrors(t, ranks(c, ring(iters, got, func(int) {}))())
				c.Stop()
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("restarted: %v, undisturbed %v", got, want)
				}
			})
		}
	}
}

// attempt runs f on n ranks and asks for a checkpoint once all have called
// ready; over tells them that it was answered.
func attempt(t *testing.T, n int, f func(c *mpi.Comm, ready func(), over func() bool) error) (error, []error) {
	t.Helper()
	c := jobtest.New(n, jobtest.Options{Dir: t.TempDir()})
	var started sync.WaitGroup
	started.Add(n)
	var answered atomic.Bool
	wait := ranks(c, func(world *mpi.Comm) error { return f(world, started.Done, answered.Load) })
	started.Wait()
	_, err := c.Checkpoint(false)
	answered.Store(true)
	errs := wait()
	c.Stop()
	return err, errs
}

func TestPendingRequestsRefuseThePoint(t *testing.T) {
	for _, size := range []int{1, 1 << 20} { // both sides of the eager limit
		err, errs := attempt(t, 2, func(c *mpi.Comm, ready func(), over func() bool) error {
			r := cr.On(c)
			x := make([]byte, size)
			if err := r.Register("x", &x); err != nil {
				return err
			}
			var req mpi.Request
			var err error
			if c.Rank() == 1 {
				if req, err = mpi.Isend(c, x, 0, 3); err != nil {
					return err
				}
			}
			ready()
			for all := []bool{false}; !all[0]; { // all leave in the same step
				if err := r.Point(); err != nil {
					return err
				}
				if err := mpi.Allreduce(c, []bool{over()}, all, mpi.LAnd); err != nil {
					return err
				}
			}
			if c.Rank() == 0 {
				_, err = mpi.Recv(c, x, 1, 3)
				return err
			}
			_, err = req.Wait()
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "rank 1") || !strings.Contains(err.Error(), "pending") {
			t.Errorf("message of %d bytes: the attempt ended with %v", size, err)
		}
		noErrors(t, errs)
	}
}

func TestNothingRegistered(t *testing.T) {
	err, errs := attempt(t, 2, func(c *mpi.Comm, ready func(), over func() bool) error {
		ready()
		for !over() {
			if err := cr.On(c).Point(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "cr.Register") {
		t.Errorf("the attempt ended with %v", err)
	}
	noErrors(t, errs)
}

func TestCallbacks(t *testing.T) {
	var mu sync.Mutex
	var log []string
	note := func(s string) func() error {
		return func() error { mu.Lock(); defer mu.Unlock(); log = append(log, s); return nil }
	}
	program := func(c *mpi.Comm, ready func()) error {
		r := cr.On(c)
		i := 0
		if err := r.Register("i", &i); err != nil {
			return err
		}
		r.OnCheckpoint(note("checkpoint"))
		r.OnContinue(note("continue"))
		r.OnRestart(note("restart"))
		go ready()
		for ; i < 1<<30; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			mu.Lock()
			over := len(log) > 1 || r.Restarted()
			mu.Unlock()
			if over {
				break
			}
		}
		return nil
	}
	dir := t.TempDir()
	c := jobtest.New(1, jobtest.Options{Dir: dir})
	started := make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error { return program(w, func() { close(started) }) })
	<-started
	images, err := c.Checkpoint(false)
	if err != nil {
		t.Fatal(err)
	}
	noErrors(t, wait())
	c.Stop()
	c = jobtest.New(1, jobtest.Options{Images: images})
	noErrors(t, ranks(c, func(w *mpi.Comm) error { return program(w, func() {}) })())
	c.Stop()
	if got := strings.Join(log, " "); got != "checkpoint continue restart" {
		t.Errorf("callbacks: %s", got)
	}
}

// Functions of OnCheckpoint may communicate, and what they find is in the image.
func TestCallbacksCommunicate(t *testing.T) {
	const n = 3
	asked, armed, onArmed := gatekeeper()
	program := func(c *mpi.Comm) error {
		r := cr.On(c)
		i, agreed := 0, []int{-1}
		if err := r.Register("i", &i); err != nil {
			return err
		}
		if err := r.Register("agreed", &agreed); err != nil {
			return err
		}
		r.OnCheckpoint(func() error {
			right, left := (c.Rank()+1)%n, (c.Rank()+n-1)%n
			if err := mpi.SendValue(c, i, right, 9); err != nil {
				return err
			}
			theirs, _, err := mpi.RecvValue[int](c, left, 9)
			if err != nil || theirs != i {
				return fmt.Errorf("rank %d is in step %d, rank %d in %d: %v", c.Rank(), i, left, theirs, err)
			}
			agreed = make([]int, 1)
			return mpi.Allreduce(c, []int{i}, agreed, mpi.Sum)
		})
		for ; i < 40; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			if r.Restarted() {
				if agreed[0] != n*i {
					return fmt.Errorf("rank %d goes on in step %d with %v", c.Rank(), i, agreed)
				}
				return mpi.Barrier(c)
			}
			if i == 5 && c.Rank() == 0 {
				close(asked)
				<-armed
			}
			if err := mpi.Barrier(c); err != nil {
				return err
			}
		}
		return mpi.Barrier(c)
	}
	c := jobtest.New(n, jobtest.Options{Dir: t.TempDir(), OnSend: onArmed})
	wait := ranks(c, program)
	<-asked
	images, err := c.Checkpoint(false)
	if err != nil {
		t.Fatal(err)
	}
	noErrors(t, wait())
	c.Stop()
	c = jobtest.New(n, jobtest.Options{Images: images})
	noErrors(t, ranks(c, program)())
	c.Stop()
}

// ringImages takes a snapshot of the ring on two ranks.
func ringImages(t *testing.T) []string {
	t.Helper()
	asked, armed, onArmed := gatekeeper()
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir(), OnSend: onArmed})
	sums := make([]int, 2)
	wait := ranks(c, ring(40, sums, func(i int) {
		if i == 5 {
			close(asked)
			<-armed
		}
	}))
	<-asked
	images, err := c.Checkpoint(false)
	if err != nil {
		t.Fatal(err)
	}
	noErrors(t, wait())
	c.Stop()
	return images
}

func TestProgramAndImageDoNotFit(t *testing.T) {
	images := ringImages(t)
	i, f, s := 0, 0.0, []int{}
	for name, try := range map[string]struct {
		program func(r *cr.Registry, c *mpi.Comm) error
		says    string
	}{
		"other name": {func(r *cr.Registry, c *mpi.Comm) error { return errors.Join(r.Register("nothing", &i), r.Point()) }, "nothing"},
		"other type": {func(r *cr.Registry, c *mpi.Comm) error { return r.Register("iter", &f) }, "float64"},
		"missing":    {func(r *cr.Registry, c *mpi.Comm) error { return errors.Join(r.Register("iter", &i), r.Point()) }, "trail"},
		"no communicator": {func(r *cr.Registry, c *mpi.Comm) error {
			return errors.Join(r.Register("iter", &i), r.Register("sum", &i), r.Register("trail", &s), r.Point())
		}, "world"},
	} {
		t.Run(name, func(t *testing.T) {
			c := jobtest.New(2, jobtest.Options{Images: images})
			defer c.Stop()
			errs := ranks(c, func(w *mpi.Comm) error {
				if w.Rank() == 0 {
					return try.program(cr.On(w), w)
				}
				return errors.New("not looked at")
			})()
			if !errors.Is(errs[0], cr.ErrMismatch) || !strings.Contains(errs[0].Error(), try.says) {
				t.Errorf("got %v", errs[0])
			}
		})
	}
}

// A damaged image is not the program's fault.
func TestDamagedImageIsNoMismatch(t *testing.T) {
	const mark = 0x0123456789abcdef
	program := func(c *mpi.Comm, ready func()) error {
		r, x := cr.On(c), uint64(mark)
		if err := r.Register("x", &x); err != nil {
			return err
		}
		var over bool
		r.OnContinue(func() error { over = true; return nil })
		go ready()
		for !over {
			if err := r.Point(); err != nil {
				return err
			}
		}
		return nil
	}
	c := jobtest.New(1, jobtest.Options{Dir: t.TempDir()})
	started := make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error { return program(w, func() { close(started) }) })
	<-started
	images, err := c.Checkpoint(false)
	if err != nil {
		t.Fatal(err)
	}
	noErrors(t, wait())
	c.Stop()
	b, err := os.ReadFile(images[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, binary.NativeEndian.AppendUint64(nil, mark))
	if at < 0 {
		t.Fatal("the variable's bytes are not in the image")
	}
	b[at] ^= 1
	if err := os.WriteFile(images[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	c = jobtest.New(1, jobtest.Options{Images: images})
	defer c.Stop()
	errs := ranks(c, func(w *mpi.Comm) error { return program(w, func() {}) })()
	if !errors.Is(errs[0], image.ErrCorrupt) || errors.Is(errs[0], cr.ErrMismatch) || !strings.Contains(errs[0].Error(), "rank 0") {
		t.Errorf("got %v", errs[0])
	}
}

// A snapshot through a collective could not be restarted: it must not commit,
// whether the collective is one of messages or a turn of a team.
func TestCollectiveAcrossThePoint(t *testing.T) {
	for name, call := range map[string]func(c *mpi.Comm, x []int) error{
		"message": func(c *mpi.Comm, x []int) error { return mpi.Gather(c, x, make([]int, 3), 1) },
		"turn":    func(c *mpi.Comm, x []int) error { return mpi.Bcast(c, x, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			err, errs := attempt(t, 3, func(c *mpi.Comm, ready func(), over func() bool) error { return across(c, call, ready, over) })
			if err == nil || !strings.Contains(err.Error(), "a collective on world") {
				t.Errorf("the attempt ended with %v", err)
			}
			noErrors(t, errs)
		})
	}
}

// across makes a call, in which rank 0 waits for nobody, before a Point on rank 0
// and after it on the others.
func across(c *mpi.Comm, call func(c *mpi.Comm, x []int) error, ready func(), over func() bool) error {
	r, x := cr.On(c), []int{0}
	if err := r.Register("x", &x); err != nil {
		return err
	}
	for range 2 { // the calls are turns of odd numbers then: in those divisible by 32 all wait for all
		if err := mpi.Barrier(c); err != nil {
			return err
		}
	}
	ready()
	for all := []bool{false}; !all[0]; {
		if c.Rank() != 0 {
			if err := r.Point(); err != nil {
				return err
			}
		}
		if err := call(c, x); err != nil {
			return err
		}
		if c.Rank() == 0 {
			if err := r.Point(); err != nil {
				return err
			}
		}
		if err := mpi.Allreduce(c, []bool{over()}, all, mpi.LAnd); err != nil {
			return err
		}
	}
	return nil
}
