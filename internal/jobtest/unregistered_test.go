package jobtest_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/jobtest"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestNothingToSave: a program that could register state and has not says so at
// once where whole processes will do; where they will not it is waited for, and
// what it lacks is said.
func TestNothingToSave(t *testing.T) {
	d := takeOfIdle(t, oob.ModeAuto, jobtest.Options{Auto: 50 * time.Millisecond})
	if d.Err != "" || d.Mode != oob.ModeNative || d.Notes != nil {
		t.Errorf("not at once: %+v", d)
	}
	d = takeOfIdle(t, oob.ModeSelf, jobtest.Options{Phase: 50 * time.Millisecond})
	for _, says := range []string{"has not reached Point 1", "registered nothing", "call cr.Register"} {
		if !strings.Contains(d.Err, says) {
			t.Errorf("portable images: %+v, without %q", d, says)
		}
	}
}

// takeOfIdle takes a snapshot of ranks that do nothing.
func takeOfIdle(t *testing.T, mode uint64, opt jobtest.Options) ckpt.Done {
	opt.Dir = t.TempDir()
	c := jobtest.New(2, opt)
	defer c.Stop()
	over := make(chan struct{})
	wait := ranks(c, func(*mpi.Comm) error {
		<-over
		return nil
	})
	d := c.Take(mode, false)
	close(over)
	if err := wait(); err != nil {
		t.Error(err)
	}
	return d
}

// TestRegistersLater: who asks for portable images before the program has
// registered gets them when it has; so does who asks for any, if the program was
// restarted from such.
func TestRegistersLater(t *testing.T) {
	var images []string
	for _, mode := range []uint64{oob.ModeSelf, oob.ModeAuto} {
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
		images = []string{filepath.Join(dir, "1", ckpt.ImageName(0))}
	}
}
