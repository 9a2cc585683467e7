package criu

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	criu "github.com/checkpoint-restore/go-criu/v8"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/system/unquiet"
)

// target is a running rank, a whole.Target.
type target struct {
	b              *Backend
	pid, rank, oob int
}

// Committed has no effect here: every image is complete.
func (g *target) Committed(int) {}

// Close has nothing to let go of.
func (g *target) Close() error { return nil }

// files is a rank's state in criu's files, a whole.Copy.
type files struct {
	s     *session
	st    *State
	bytes uint64
	pause time.Duration
}

// Capture stops the rank, lets criu write all of it and lets it go on. After an
// error it goes on as well, unless the error is whole.ErrDied.
func (g *target) Capture(opt whole.CaptureOptions) (whole.Copy, error) {
	c, err := g.capture(opt.Stands)
	if err != nil {
		if ended(g.pid) {
			return nil, whole.ErrDied
		}
		return nil, fmt.Errorf("%w: %w", ErrDump, err)
	}
	return c, nil
}

func (g *target) capture(stands func()) (_ *files, err error) {
	if unquiet.Process(g.pid) {
		return nil, fmt.Errorf("it has %s: %s", unquiet.Why, unquiet.Remedy)
	}
	st, err := record(g.pid, g.rank, g.oob)
	if err != nil {
		return nil, err
	}
	s, err := g.b.open()
	if err != nil {
		return nil, err
	}
	defer func() {
		s.release()
		if err != nil {
			s.close()
		}
	}()
	opts, err := dumpOptions(st, int(s.images.Fd()), int(s.work.Fd()), os.Geteuid() != 0)
	if err != nil {
		return nil, err
	}
	watch := &dumpWatch{st: st, stands: stands}
	err = s.call(here, nil, func(c *criu.Criu) error {
		err := c.Dump(opts, watch)
		watch.pause = time.Since(watch.begin)
		return err
	})
	if watch.err != nil {
		return nil, watch.err // criu only says that a script failed
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, s.log(dumpLog))
	}
	if !watch.froze {
		return nil, fmt.Errorf("%s has not said when the process stood still", g.b.command())
	}
	n, err := size(filepath.Join(s.dir, "images"))
	return &files{s: s, st: st, bytes: n, pause: watch.pause}, err
}

// here runs f on whatever thread this is.
func here(f func()) { f() }

// dumpWatch gets the progress of a dump from criu.
type dumpWatch struct {
	criu.NoNotify
	st     *State
	stands func() // called while the process stands; nil: no caller wants the result
	begin  time.Time
	pause  time.Duration
	froze  bool
	err    error
}

// PreDump is called before anything is stopped.
func (w *dumpWatch) PreDump() error {
	w.begin = time.Now()
	return nil
}

// PostDump is called when all is written and the process still stands.
func (w *dumpWatch) PostDump() error {
	w.froze = true
	if w.stands != nil {
		w.stands()
	}
	w.err = w.st.freeze()
	return w.err
}

// ended reports whether the process pid is dead, reaped or not.
func ended(pid int) bool {
	s, ok := procfs.ReadStat(pid)
	return !ok || s.Ended()
}

// size adds up the files in dir.
func size(dir string) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return 0, err
		}
		sum += uint64(fi.Size())
	}
	return sum, nil
}

// PID is 0: no process holds the copy.
func (c *files) PID() int { return 0 }

// Base is 0: images are never incremental.
func (c *files) Base() int { return 0 }

// Bytes is the size of criu's files.
func (c *files) Bytes() uint64 { return c.bytes }

// Pause is how long the rank stood still, at most.
func (c *files) Pause() time.Duration { return c.pause }

// Note is what the user should know of the way this was done.
func (c *files) Note() string { return "imaged stopped: criu copies no process" }

// Write makes an image of the copy; m.Backend and m.Format are set here.
func (c *files) Write(to image.Target, m image.Meta, opt image.Options) (image.Summary, error) {
	return pack(to, filepath.Join(c.s.dir, "images"), c.st, m, opt)
}

// Release removes criu's files. It may be called again.
func (c *files) Release() error { return c.s.close() }
