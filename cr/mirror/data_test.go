package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// expired is a context that is over: a test.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// open opens a description with one region and restores it.
func open(ctx context.Context, m *member, name string, o mirror.Options, ptr any) (*mirror.Description, int, error) {
	d, err := mirror.Open(m.world, name, o)
	if err != nil {
		return nil, 0, err
	}
	if err := d.Region("x", ptr); err != nil {
		return nil, 0, err
	}
	epoch, err := d.Restore(ctx)
	return d, epoch, err
}

// Commit with an expired context is a test: false until all have started, and true at last. A second Start before that is an error.
func TestCommitIsATest(t *testing.T) {
	tested := make(chan bool)
	c := start(t, 2, nodesOf(2), func(ctx context.Context, m *member) error {
		x := []int{m.world.Rank()}
		d, _, err := open(ctx, m, "x", mirror.Options{}, &x)
		if err != nil {
			return err
		}
		if done, err := d.Commit(expired); !done || err != nil {
			t.Errorf("Commit without Start: %v, %v", done, err)
		}
		if m.world.Rank() == 1 {
			<-tested
			return cmpErr(d.Start(ctx), commit(ctx, d))
		}
		if err := d.Start(ctx); err != nil {
			return err
		}
		if done, err := d.Commit(expired); done || err != nil {
			t.Errorf("Commit while rank 1 has not started: %v, %v", done, err)
		}
		if err := d.Start(ctx); err == nil || !strings.Contains(err.Error(), "not committed yet") {
			t.Errorf("Start twice: %v", err)
		}
		if s := d.State(); s.Epoch != 0 || s.Started != 1 || !s.Busy || !s.Running || s.Promise.Nodes != 1 {
			t.Errorf("state %+v", s)
		}
		close(tested)
		return commit(ctx, d)
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

func commit(ctx context.Context, d *mirror.Description) error {
	done, err := d.Commit(ctx)
	if err == nil && !done {
		err = context.Cause(ctx)
	}
	return err
}

// The copy is that of the call: the program may write at once.
func TestCopyBehind(t *testing.T) {
	var once sync.Once
	c := start(t, 2, nodesOf(3), func(ctx context.Context, m *member) error {
		x := make([]int64, 1<<20)
		d, epoch, err := open(ctx, m, "x", mirror.Options{}, &x)
		if err != nil {
			return err
		}
		for i := range x {
			if epoch > 0 && x[i] != int64(epoch) {
				t.Fatalf("x[%d] is %d in epoch %d", i, x[i], epoch)
			}
		}
		for e := epoch + 1; e < 5; e++ {
			for i := range x {
				x[i] = int64(e)
			}
			if err := d.Start(ctx); err != nil {
				return err
			}
			for i := range x {
				x[i] = -1
			}
			if err := commit(ctx, d); err != nil {
				return err
			}
			if e == 3 && m.world.Rank() == 0 {
				once.Do(m.die)
			}
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// Descriptions with policies of their own go at their own pace, and come back each for itself.
func TestTwoDescriptions(t *testing.T) {
	var once sync.Once
	c := start(t, 4, nodesOf(5), func(ctx context.Context, m *member) error {
		often, seldom := []int{0}, make([]float64, 1000*m.world.Rank())
		a, ea, err := open(ctx, m, "often", mirror.Options{}, &often)
		if err != nil {
			return err
		}
		b, eb, err := open(ctx, m, "seldom", mirror.Options{Policy: mirror.Code{Data: 3, Parity: 1}}, &seldom)
		if err != nil {
			return err
		}
		if m.world.Life() > 1 {
			if ea < 6 || eb < 2 || often[0] != ea || len(seldom) > 0 && int(seldom[0]) != eb {
				t.Errorf("epochs %d and %d, values %d and %v", ea, eb, often[0], seldom[:min(1, len(seldom))])
			}
		}
		for often[0] < 9 {
			often[0]++
			if err := cmpErr(commit(ctx, a), a.Start(ctx)); err != nil {
				return err
			}
			if often[0]%3 == 0 {
				for i := range seldom {
					seldom[i] = float64(often[0] / 3)
				}
				if err := cmpErr(b.Start(ctx), commit(ctx, b), commit(ctx, a)); err != nil {
					return err
				}
			}
			if often[0] == 6 && m.world.Rank() == 2 {
				once.Do(m.die)
			}
		}
		return commit(ctx, a)
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// A bit that has changed in memory is found by the sums, and the piece made again from another copy.
func TestBitFlip(t *testing.T) {
	for _, policy := range []mirror.Policy{mirror.Ring(1), mirror.Code{Data: 2, Parity: 1}} {
		for _, holder := range []int{0, 1} { // the owner of the image and, in a ring, who has its replica
			var all sync.WaitGroup
			all.Add(3)
			c := start(t, 3, nodesOf(3), func(ctx context.Context, m *member) error {
				rank := m.world.Rank()
				x := []string{"zero", "one", "two"}[rank]
				b := []byte(x)
				d, _, err := open(ctx, m, "x", mirror.Options{Policy: policy}, &b)
				if err != nil {
					return err
				}
				if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
					return err
				}
				flipped := rank == holder && m.world.Flip("x", 0)
				all.Done()
				all.Wait()
				b = nil
				if epoch, err := d.Restore(ctx); epoch != 1 || err != nil || string(b) != x {
					t.Errorf("%v, rank %d: epoch %d, %q, %v", policy, rank, epoch, b, err)
				}
				s := d.Stats()
				if flipped && (s.Damaged != 1 || s.Made != 1) || !flipped && s.Damaged+s.Made > 0 {
					t.Errorf("%v, rank %d: %+v", policy, rank, s)
				}
				return nil
			})
			if err := c.wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is on disk survives the end of everybody: a new world goes on from it, with ranks on other nodes than before. With
// one node less it goes on as well.
func TestTargetsSurviveAll(t *testing.T) {
	for _, target := range []func(string) mirror.Target{mirror.File, mirror.Mapped} {
		for _, less := range []int{0, 1} {
			dir := t.TempDir()
			run := func(steps int, at []mirror.Place, end bool) *program {
				p := &program{t: t, steps: steps, n: 70_000}
				var all sync.WaitGroup
				all.Add(3)
				p.at = func(m *member, d *mirror.Description, rank, step int) error {
					if end && step == 3 {
						all.Done()
						all.Wait() // everybody has committed
						if p.once("end") {
							m.c.loseNodes("n0", "n1", "n2", "n3")
						}
					}
					return nil
				}
				c := start(t, 3, at, func(ctx context.Context, m *member) error {
					q := program{t: t, steps: p.steps, n: p.n, at: p.at}
					q.opt.Target = target(filepath.Join(dir, m.node))
					err := q.run(ctx, m)
					for life, e := range q.epochs {
						for epoch := range e {
							p.note(life, epoch)
						}
					}
					return err
				})
				if end {
					c.wg.Wait()
					c.stop()
				} else if err := c.wait(); err != nil {
					t.Fatal(err)
				}
				return p
			}
			run(5, nodesOf(3), true)
			at := nodesOf(3)
			slices.Reverse(at)
			if less > 0 {
				at[1].Node = "n3"
			}
			p := run(5, at, false)
			if p.back(1) != 3 {
				t.Errorf("%v: went back to epoch %d, and 3 was committed", target(""), p.back(1))
			}
		}
	}
}

// An epoch that cannot be made durable on one rank is given up on all. The one before is intact, the next one succeeds.
func TestGaveUp(t *testing.T) {
	dir := t.TempDir()
	var before, after sync.WaitGroup
	before.Add(2)
	after.Add(2)
	c := start(t, 2, nodesOf(2), func(ctx context.Context, m *member) error {
		rank := m.world.Rank()
		x := []int{1}
		d, _, err := open(ctx, m, "x", mirror.Options{Target: mirror.File(dir)}, &x)
		if err != nil {
			return err
		}
		if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
			return err
		}
		before.Done()
		before.Wait()
		bad := filepath.Join(dir, "x", "rank-00001", "image-1.%d.data")
		if rank == 1 { // no file can be written where a folder is
			for i := range 2 {
				if err := os.MkdirAll(fmt.Sprintf(bad, i)+".d", 0o700); err != nil {
					return err
				}
				os.Rename(fmt.Sprintf(bad, i), fmt.Sprintf(bad, i)+".old")
				os.Rename(fmt.Sprintf(bad, i)+".d", fmt.Sprintf(bad, i))
			}
		}
		x[0] = 2
		if err := d.Start(ctx); err != nil {
			return err
		}
		if err := commit(ctx, d); !errors.Is(err, mirror.ErrGaveUp) || !strings.Contains(err.Error(), "rank 1: ") || !strings.Contains(err.Error(), "is a directory") {
			t.Errorf("rank %d: Commit: %v", rank, err)
		}
		// What is still read of the epoch that was given up is awaited, no longer than one wants.
		release := m.world.Hold("x")
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		if err := d.Start(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank %d: Start beside a reader: %v", rank, err)
		}
		cancel()
		release()
		after.Done()
		after.Wait()
		if rank == 1 {
			for i := range 2 {
				os.Remove(fmt.Sprintf(bad, i))
				os.Rename(fmt.Sprintf(bad, i)+".old", fmt.Sprintf(bad, i))
			}
		}
		if epoch, err := d.Restore(ctx); epoch != 1 || err != nil || x[0] != 1 {
			t.Errorf("rank %d: Restore: epoch %d, %v, x %d", rank, epoch, err, x[0])
		}
		return cmpErr(d.Start(ctx), commit(ctx, d), d.Remove())
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "x", "*")); len(left) > 0 {
		t.Errorf("Remove has left %v", left)
	}
}

// Ranks remove a description and open it anew under the same name, at different times: what those send that are ahead is of the new one.
func TestRemovedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	const rounds = 5
	c := start(t, 3, []mirror.Place{{Node: "a"}, {Node: "b"}, {Node: "c"}}, func(ctx context.Context, m *member) error {
		for round := range rounds {
			d, err := mirror.Open(m.world, "state", mirror.Options{})
			if err != nil {
				return err
			}
			x := []float64{float64(round)}
			if err := d.Region("x", &x); err != nil {
				return err
			}
			if epoch, err := d.Restore(ctx); err != nil || epoch != 0 {
				return fmt.Errorf("round %d: epoch %d of a description that was removed: %w", round, epoch, err)
			}
			err = cmpErr(d.Start(ctx), commit(ctx, d))
			if m.world.Rank() == 0 && round+1 < rounds { // the others are ahead
				for end := time.Now().Add(time.Minute); m.world.Early("state") < 2; <-time.After(time.Millisecond) {
					if time.Now().After(end) {
						return errors.New("what the others send is taken for the old one's")
					}
				}
			}
			if err := cmpErr(err, d.Remove()); err != nil {
				return err
			}
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// The zero Target is Memory: ranks that write it in either way agree.
func TestZeroTarget(t *testing.T) {
	t.Parallel()
	c := start(t, 2, []mirror.Place{{Node: "a"}, {Node: "b"}}, func(ctx context.Context, m *member) error {
		o := mirror.Options{}
		if m.world.Rank() == 1 {
			o.Target = mirror.Memory()
		}
		d, err := mirror.Open(m.world, "state", o)
		if err != nil {
			return err
		}
		_, err = d.Restore(ctx)
		return err
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}
