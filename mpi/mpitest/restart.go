package mpitest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
)

// Restart tests that a program goes on from its own portable images. It runs f on n ranks until all stand at their
// k-th Point (the first is number 1), takes an image of each, and ends them: what they call from then on returns
// mpi.ErrAborted. Then it runs f on n new ranks, which go on from the images, to its end. The test fails, and ends
// as by t.FailNow, if a rank fails, or if one returns before its k-th Point.
//
// f registers its state by cr.On(c) and calls the Point of that. It should not know by other means how far it has
// come: what it keeps outside of registered variables, the ranks of the second run find as the first has left it.
func Restart(t testing.TB, n, k int, f func(c *mpi.Comm) error) {
	t.Helper()
	restarted(t, k, []int{n, n}, f)
}

// Resize is Restart with other numbers of ranks, as by gorun restart -np: f runs on ranks[0] ranks to their k-th Point, then
// from there on ranks[1] ranks to their k-th Point, and so on, and on the last number to its end. With k = 1 each goes on
// from where the first has been imaged. What f registers is distributed or replicated (package dist), and no message is under way
// at that Point; else the test fails with the reason that gorun tells. Neighbours that are equal are a Restart.
func Resize(t testing.TB, k int, ranks []int, f func(c *mpi.Comm) error) {
	t.Helper()
	restarted(t, k, ranks, f)
}

func restarted(t testing.TB, k int, ranks []int, f func(c *mpi.Comm) error) {
	t.Helper()
	if err := restart(k, ranks, f, patience(t)); err != nil {
		t.Errorf("mpitest: %v", err)
		t.FailNow()
	}
}

func restart(k int, ranks []int, f func(c *mpi.Comm) error, limit time.Duration) error {
	if len(ranks) == 0 || slices.Min(ranks) < 1 || k < 1 {
		return fmt.Errorf("%d ranks, Point %d", ranks, k)
	}
	var images []string // that the next part goes on from; nil: from the start
	for i, n := range ranks {
		if images != nil && len(images) != n {
			if err := self.Resizable(image.Paths(images)); err != nil {
				return fmt.Errorf("from %d to %d ranks: %w", len(images), n, err)
			}
		}
		opt := jobtest.Options{Images: images, Crowded: n > runtime.NumCPU()}
		if i == len(ranks)-1 {
			again := begin(jobtest.New(n, opt), limit)
			again.run(f)
			if err := again.end(nil); err != nil {
				return fmt.Errorf("%d ranks from Point %d on: %w", n, k, err)
			}
			break
		}
		dir, err := os.MkdirTemp("", "mpitest")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		opt.Dir = dir
		if images, err = imagesAt(opt, n, k, f, limit); err != nil {
			return fmt.Errorf("%d ranks to Point %d: %w", n, k, err)
		}
	}
	return nil
}

// imagesAt runs f to the k-th Point of all ranks, and returns their images.
func imagesAt(opt jobtest.Options, n, k int, f func(c *mpi.Comm) error, limit time.Duration) ([]string, error) {
	var once sync.Once
	armed := make(chan struct{})
	opt.OnSend = func(m oob.Msg) {
		if m.Kind == oob.Target {
			once.Do(func() { close(armed) })
		}
	}
	c := jobtest.New(n, opt)
	p := begin(c, limit)
	var taken <-chan ckpt.Done
	if k == 1 { // asked for before any rank can come to a Point
		taken = c.Request(oob.ModeSelf, true)
		<-armed
		p.run(f)
	} else {
		if err := p.park(uint64(k-1), f); err != nil {
			return nil, p.end(err)
		}
		taken = c.Request(oob.ModeSelf, true)
	}
	done, err := await(p, taken)
	if err != nil {
		return nil, p.end(err)
	}
	images, err := c.Images(done)
	if err != nil {
		return nil, p.end(err)
	}
	return images, p.end(errStopped)
}

// errStopped ends ranks that have been imaged.
var errStopped = errors.New("the ranks were imaged")

// part is one of the two runs.
type part struct {
	c     *jobtest.Cluster
	over  <-chan time.Time // the time is up; nil: never
	ended chan error       // of each rank
	left  int              // ranks that run
}

func begin(c *jobtest.Cluster, limit time.Duration) *part {
	p := &part{c: c, ended: make(chan error, len(c.Jobs))}
	if limit > 0 {
		p.over = time.After(limit)
	}
	return p
}

// run starts the ranks.
func (p *part) run(f func(c *mpi.Comm) error) {
	p.left = len(p.c.Jobs)
	for _, j := range p.c.Jobs {
		go p.rank(j, f)
	}
}

// rank runs f as one rank, and tells how it has ended.
func (p *part) rank(j *job.Job, f func(c *mpi.Comm) error) {
	err := errors.New("it ended without returning (FailNow, Fatal or Goexit)")
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		if err != nil {
			err = fmt.Errorf("rank %d of %d: %w", j.Rank, j.Size, err)
		}
		p.ended <- err
	}()
	err = world.Rank(j, f)
}

// park runs f until all ranks stand at their n-th Point.
func (p *part) park(n uint64, f func(c *mpi.Comm) error) error {
	var parked []<-chan struct{}
	for _, j := range p.c.Jobs {
		parked = append(parked, j.ParkAt(n))
	}
	p.run(f)
	for _, there := range parked {
		if _, err := await(p, there); err != nil {
			return err
		}
	}
	return nil
}

// await waits for something that comes before any rank ends.
func await[T any](p *part, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case err = <-p.ended:
		p.left--
		p.c.Settle()
		select {
		case v = <-c: // it came first, and the rank went on after it
			return v, nil
		default:
		}
		if err == nil {
			err = errors.New("a rank has returned before it came to that Point")
		}
		return v, err
	case <-p.over:
		p.over = time.After(lastWords) // end waits for them no longer than that
		return v, errors.New("the ranks have not come to that Point in time")
	}
}

// end waits for all ranks. If why is not nil it makes their calls fail, and returns why, but nil for errStopped.
func (p *part) end(why error) error {
	first := why
	if why != nil {
		p.stop(why)
	}
	for ; p.left > 0; p.left-- {
		select {
		case err := <-p.ended:
			if err != nil && first == nil {
				first = err
				p.stop(err)
			}
		case <-p.over:
			p.over = time.After(lastWords)
			p.stop(engine.ErrAborted)
			if first != nil && first != errStopped {
				return first
			}
			first = errors.New("the ranks have not ended in time")
			p.left++
		}
	}
	p.c.Stop()
	if first == errStopped {
		return nil
	}
	return first
}

func (p *part) stop(why error) {
	p.c.Fail(fmt.Errorf("%w: %w", engine.ErrAborted, why))
}
