package jobtest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// stepper takes steps until over is set. Each has a Point, a message around a ring and a sum. It
// leaves its result in out.
type stepper struct {
	over     atomic.Bool
	register bool
	pending  bool          // rank 1 has a receive posted all the while
	away     chan struct{} // rank 1 comes to no Point before it is closed; nil: it does
	started  sync.WaitGroup
	mu       sync.Mutex
	steps    int
	out      map[int]int
	log      []string // of OnContinue
}

func (x *stepper) rank(w *mpi.Comm) error {
	r := cr.On(w)
	me, n := w.Rank(), w.Size()
	step, sum, began := 0, me, false
	r.OnContinue(func() error { x.note(fmt.Sprint("rank ", me)); return nil })
	if x.register {
		for name, p := range map[string]any{"step": &step, "sum": &sum} {
			if err := r.Register(name, p); err != nil {
				return err
			}
		}
	}
	side, err := w.Dup()
	if err != nil {
		return err
	}
	late, recv := make([]int, 1), mpi.Request{}
	if x.pending && me == 1 {
		if recv, err = mpi.Irecv(side, late, 0, 9); err != nil {
			return err
		}
	}
	for over := []bool{false}; !over[0]; step++ {
		if began && x.away != nil && me == 1 {
			<-x.away
		}
		if err := r.Point(); err != nil {
			return err
		}
		if !began {
			began = true
			x.started.Done()
		}
		in := make([]int, 1)
		if _, err := mpi.Sendrecv(w, []int{sum}, (me+1)%n, 1, in, (me+n-1)%n, 1); err != nil {
			return err
		}
		sum = sum*7 + in[0]
		total := make([]int, 1)
		if err := mpi.Allreduce(w, []int{sum}, total, mpi.Sum); err != nil {
			return err
		}
		sum += total[0] % 11
		if err := mpi.Allreduce(w, []bool{x.over.Load()}, over, mpi.LAnd); err != nil {
			return err
		}
	}
	if x.pending && me == 0 {
		if err := mpi.Send(side, []int{77}, 1, 9); err != nil {
			return err
		}
	}
	if _, err := recv.Wait(); err != nil || x.pending && me == 1 && late[0] != 77 {
		return fmt.Errorf("the receive that was pending: %d, %w", late[0], err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.steps, x.out[me] = step, sum
	return nil
}

func (x *stepper) note(s string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.log = append(x.log, s)
}

// check compares with the same steps in one goroutine.
func (x *stepper) check(t *testing.T, n int) {
	t.Helper()
	sum := make([]int, n)
	for i := range sum {
		sum[i] = i
	}
	for range x.steps {
		before, total := slices.Clone(sum), 0
		for i := range sum {
			sum[i] = sum[i]*7 + before[(i+n-1)%n]
			total += sum[i]
		}
		for i := range sum {
			sum[i] += total % 11
		}
	}
	for i := range sum {
		if x.out[i] != sum[i] {
			t.Errorf("after %d steps rank %d has %d, not %d", x.steps, i, x.out[i], sum[i])
		}
	}
}

func newStepper(n int) *stepper {
	x := &stepper{out: map[int]int{}}
	x.started.Add(n)
	return x
}

// TestAutoChooses: images are portable if all ranks come to a Point. They are of whole processes if
// a rank does not, or has requests pending there, or if nothing is registered. The program goes on
// each time, also from those images, wherever they met it. What comes after is as good as before.
func TestAutoChooses(t *testing.T) {
	const n = 3
	for name, want := range map[string]struct {
		mode     uint64
		note     string
		register bool
		pending  bool
		away     bool
	}{
		"all come":           {mode: oob.ModeSelf, register: true},
		"nothing registered": {mode: oob.ModeNative},
		"a request pending":  {mode: oob.ModeNative, register: true, pending: true, note: "rank 1: 1 request(s) pending at Point"},
		"one is away":        {mode: oob.ModeNative, register: true, away: true, note: "has not"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opt := jobtest.Options{Dir: dir, Auto: time.Hour}
			x := newStepper(n)
			x.register, x.pending = want.register, want.pending
			if want.away {
				opt.Auto = 50 * time.Millisecond
				x.away = make(chan struct{})
			}
			c := jobtest.New(n, opt)
			wait := ranks(c, x.rank)
			x.started.Wait()
			d := c.Take(oob.ModeAuto, false)
			notes := strings.Join(d.Notes, "; ")
			if d.Err != "" || d.Mode != want.mode || !strings.Contains(notes, want.note) || (notes == "") != (want.note == "") {
				t.Errorf("%+v", d)
			}
			if want.mode == oob.ModeNative {
				natively(t, c)
			}
			if want.away {
				close(x.away)
			}
			d = c.Take(oob.ModeSelf, false)
			if want.register && !want.pending != (d.Err == "") {
				t.Errorf("portable images: %+v", d)
			}
			x.over.Store(true)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
			x.check(t, n)
			if d.Err != "" {
				return
			}
			var images []string
			for rank := range n {
				images = append(images, filepath.Join(dir, fmt.Sprint(d.Seq), ckpt.ImageName(rank)))
			}
			c = jobtest.New(n, jobtest.Options{Images: images})
			again := newStepper(n)
			again.register = true
			again.over.Store(true)
			if err := ranks(c, again.rank)(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
			again.check(t, n)
		})
	}
}

// natively takes the job through images of whole processes.
func natively(t *testing.T, c *jobtest.Cluster) {
	t.Helper()
	if err := c.ReviveFrom(oob.ModeAuto, "tcp"); err != nil {
		t.Error(err)
	}
	for i := range 4 {
		d := c.Take(oob.ModeAuto, false)
		if full := i%3 == 0; d.Err != "" || d.Mode != oob.ModeNative || (d.Base == 0) != full {
			t.Errorf("snapshot %d of the new incarnation: %+v", i, d)
		}
	}
	for _, transport := range []string{"shm", "tcp", "shm"} {
		if err := c.Revive(transport); err != nil {
			t.Error(err)
		}
	}
}

// TestFinalizeGoesOn: a rank waits in Finalize when it is imaged. The next head
// has not heard of that.
func TestFinalizeGoesOn(t *testing.T) {
	const n = 3
	c := jobtest.New(n, jobtest.Options{Dir: t.TempDir()})
	release := make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error {
		if w.Rank() == 1 {
			<-release
		}
		return nil
	})
	for inFinalize := 0; inFinalize < n-1; {
		d := c.Take(oob.ModeSelf, false)
		if strings.Contains(d.Err, "Finalize") {
			inFinalize++
		}
	}
	for _, transport := range []string{"tcp", "tcp", "shm", "shm"} {
		if err := c.Revive(transport); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	c.Stop()
}

// TestCannotGoOn: a rank that cannot says why to the new head, and ends.
func TestCannotGoOn(t *testing.T) {
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir()})
	defer c.Stop()
	err := c.Revive("carrier-pigeon")
	if err == nil || !strings.Contains(err.Error(), "cannot go on from its image") || !strings.Contains(err.Error(), `no transport "carrier-pigeon"`) {
		t.Errorf("the head is told: %v", err)
	}
	until(func() bool { return c.Lost(0) != nil && c.Lost(1) != nil })
	if err := c.Lost(1); !strings.HasPrefix(err.Error(), "rank 1 cannot go on") {
		t.Error(err)
	}
}
