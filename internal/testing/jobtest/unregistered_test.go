package jobtest_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestNothingToSave: a program that could register state and has not is waited for
// once, as it may be about to; then it says so at once where whole processes will do.
// Where they will not it is waited for, and what it lacks is said.
func TestNothingToSave(t *testing.T) {
	d := takeOfIdle(t, []uint64{oob.ModeAuto, oob.ModeAuto}, jobtest.Options{Auto: 50 * time.Millisecond})
	if d[0].Err != "" || d[0].Mode != oob.ModeNative || d[0].Notes == nil {
		t.Errorf("not waited for: %+v", d[0])
	}
	if d[1].Err != "" || d[1].Mode != oob.ModeNative || d[1].Notes != nil {
		t.Errorf("not at once: %+v", d[1])
	}
	d = takeOfIdle(t, []uint64{oob.ModeSelf}, jobtest.Options{Phase: 50 * time.Millisecond})
	for _, says := range []string{"has not reached Point 1", "registered nothing", "call cr.Register"} {
		if !strings.Contains(d[0].Err, says) {
			t.Errorf("portable images: %+v, without %q", d, says)
		}
	}
}

// takeOfIdle takes snapshots of ranks that do nothing.
func takeOfIdle(t *testing.T, modes []uint64, opt jobtest.Options) (all []ckpt.Done) {
	opt.Dir = t.TempDir()
	c := jobtest.New(2, opt)
	defer c.Stop()
	over := make(chan struct{})
	wait := ranks(c, func(*mpi.Comm) error {
		<-over
		return nil
	})
	for _, mode := range modes {
		all = append(all, c.Take(mode, false))
	}
	close(over)
	if err := wait(); err != nil {
		t.Error(err)
	}
	return all
}

// TestRegistersLater: a request for portable images that comes before the program has
// registered gets them when it has. So does a request for any images, if the program has just
// begun or was restarted from portable ones.
func TestRegistersLater(t *testing.T) {
	var images []string
	for _, mode := range []uint64{oob.ModeAuto, oob.ModeSelf, oob.ModeAuto} {
		var once sync.Once
		asked, dir := make(chan struct{}), t.TempDir()
		c := jobtest.New(1, jobtest.Options{Dir: dir, Images: images, Auto: time.Hour, OnSend: func(m oob.Msg) {
			if m.Kind == oob.Target {
				once.Do(func() { close(asked) })
			}
		}})
		taken, step := make(chan struct{}), 0
		wait := ranks(c, func(w *mpi.Comm) error {
			r := cr.On(w)
			select {
			case <-asked:
			case <-taken:
			}
			if err := r.Register("step", &step); err != nil {
				return err
			}
			for {
				if err := r.Point(); err != nil {
					return err
				}
				select {
				case <-taken:
					return nil
				default:
				}
			}
		})
		d := c.Take(mode, false)
		if d.Err != "" || d.Mode != oob.ModeSelf {
			t.Errorf("%+v", d)
		}
		close(taken)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		c.Stop()
		if mode == oob.ModeSelf {
			images = []string{filepath.Join(dir, "1", ckpt.ImageName(0))}
		}
	}
}
