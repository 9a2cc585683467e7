package criu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	criu "github.com/checkpoint-restore/go-criu/v8"
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
)

// Restore makes a process of an image, a child of this one. On error nothing is
// left of it.
func (t *tracer) Restore(o whole.RestoreOptions) (*whole.Restored, error) {
	r, err := t.restore(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRestore, err)
	}
	return r, nil
}

func (t *tracer) restore(o whole.RestoreOptions) (*whole.Restored, error) {
	r, err := o.Image.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	st, err := readState(r)
	if err != nil {
		return nil, err
	}
	if err := st.check(o.Files); err != nil {
		return nil, err
	}
	s, err := t.b.open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := unpack(r, filepath.Join(s.dir, "images")); err != nil {
		return nil, err
	}
	if err := st.cut(o.Tag); err != nil {
		return nil, err
	}
	opts := restoreOptions(int(s.images.Fd()), int(s.work.Fd()), true, os.Geteuid() != 0)
	watch := &restoreWatch{pid: st.PID}
	err = s.call(t.do, inherited(st, [3]int{o.Stdin, o.Stdout, o.Stderr}, o.OOB), func(c *criu.Criu) error {
		return c.Restore(opts, watch)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, s.log(restoreLog))
	}
	back := &whole.Restored{PID: watch.pid, Unread: st.Unread}
	back.Go = func() error {
		if o.Hold {
			return nil // it stays stopped for a debugger
		}
		return unix.Kill(back.PID, unix.SIGCONT)
	}
	back.End = func() error {
		if err := unix.Kill(-back.PID, unix.SIGKILL); err != nil {
			return err
		}
		_, err := unix.Wait4(back.PID, nil, 0, nil)
		return err
	}
	return back, nil
}

// restoreWatch learns from criu which process it made.
type restoreWatch struct {
	criu.NoNotify
	pid int
}

// PostRestore is called before the process goes on.
func (w *restoreWatch) PostRestore(pid int32) error {
	w.pid = int(pid)
	return nil
}

// check finds early, and in plainer words than criu's, what is in the way.
func (st *State) check(files whole.FilesPolicy) error {
	if files != whole.FilesRefuse && files != "" {
		return fmt.Errorf("criu opens files where they were and at the sizes they had: -files=%s cannot be done with it", files)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(st.PID)); err == nil {
		return fmt.Errorf("process id %d, under which criu must bring it back, is taken: end that process (the job that was imaged may still run), or restart on another machine", st.PID)
	}
	if _, err := os.Stat(st.Program); err != nil {
		return fmt.Errorf("criu takes the program from where it was: %w", err)
	}
	for _, f := range st.Files {
		fi, err := os.Stat(f.Path)
		if err != nil {
			return fmt.Errorf("an output file: %w", err)
		}
		if fi.Size() < f.Size {
			return fmt.Errorf("output file %s has %d bytes, it had %d when it was imaged: put it back", f.Path, fi.Size(), f.Size)
		}
	}
	return nil
}

// cut shortens output files to the size they had, which criu insists on. What
// is cut off is kept beside them.
func (st *State) cut(tag string) error {
	for _, f := range st.Files {
		if err := cutFile(f, tag); err != nil {
			return fmt.Errorf("output file %s, to be cut to %d bytes: %w", f.Path, f.Size, err)
		}
	}
	return nil
}

func cutFile(f File, tag string) error {
	src, err := os.OpenFile(f.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil || fi.Size() <= f.Size {
		return err
	}
	tail, err := os.OpenFile(f.Path+".tail-"+tag, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fi.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = src.Seek(f.Size, 0)
	if err == nil {
		_, err = tail.ReadFrom(src)
	}
	if err == nil {
		err = tail.Sync()
	}
	if err = errors.Join(err, tail.Close()); err != nil {
		return errors.Join(err, os.Remove(tail.Name()))
	}
	return src.Truncate(f.Size)
}
