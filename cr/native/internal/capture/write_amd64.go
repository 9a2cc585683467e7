package capture

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Write writes the image of the captured process. m tells whose it is;
// what concerns the back-end is filled in. It can be called once: what was read
// of the copy is given back, so that the program that goes on beside it need not
// keep two of everything for longer than it takes. Files that the program was
// writing to are on the disk when Write returns without an error.
func (c *captured) Write(to image.Target, m image.Meta, opt image.Options) (image.Summary, error) {
	c.mu.Lock()
	again := c.written || c.released
	c.written = true
	c.mu.Unlock()
	if again {
		return image.Summary{}, errors.New("the copy was written or released before")
	}
	sum, err := c.write(to, m, opt)
	return sum, c.blame(err)
}

func (c *captured) write(to image.Target, m image.Meta, opt image.Options) (image.Summary, error) {
	synced := c.syncFiles()
	defer synced()
	pid := c.pid
	if pid == 0 {
		pid = c.g.PID
	}
	maps, err := c.describe(pid)
	if err != nil {
		return image.Summary{}, err
	}
	c.state.Base = c.base
	text, err := c.state.Encode()
	if err != nil {
		return image.Summary{}, err
	}
	m.Backend, m.Format, m.BuildID = state.Backend, state.Format, c.state.BuildID
	opt.BlockSize = max(opt.BlockSize, image.DefaultBlockSize) // a window is four of them
	windows := windowsOf(maps, c.state.Exe)
	r, err := c.newReader(pid, windows)
	if err != nil {
		return image.Summary{}, err
	}
	defer r.close() // when no worker reads any more
	w, err := to.Create(m, opt)
	if err != nil {
		return image.Summary{}, err
	}
	if err := c.sections(w, text); err != nil {
		w.Abort()
		return image.Summary{}, err
	}
	for i := range windows {
		err := w.SectionFill(fmt.Sprintf("%012x", windows[i].base), state.KindPages, pages.Window, func(p []byte) (int, string, error) {
			return r.read(i, p)
		})
		if err != nil {
			w.Abort()
			return image.Summary{}, err
		}
	}
	// Before the image counts.
	if err := synced(); err != nil {
		w.Abort()
		return image.Summary{}, err
	}
	return w.Commit()
}

// syncFiles begins to bring the program's files to the disk; the function
// returned waits until they are there.
func (c *captured) syncFiles() func() error {
	done := make(chan error, 1)
	go func() {
		var err error
		for _, fd := range c.sync {
			if e := unix.Fsync(fd); e != nil && !errors.Is(e, unix.EINVAL) && !errors.Is(e, unix.EROFS) {
				err = errors.Join(err, fmt.Errorf("a file that the program writes to: fsync: %w", e))
			}
		}
		done <- err
	}()
	return sync.OnceValue(func() error { return <-done })
}

// sections writes the small ones.
func (c *captured) sections(w *image.Writer, text []byte) error {
	if err := w.Section(state.SectionName, state.KindProcess, "json", text); err != nil {
		return err
	}
	for i := range c.contents {
		if k := &c.contents[i]; len(k.data) > 0 || k.kind == state.KindFile {
			if err := w.Section(k.name, k.kind, "", k.data); err != nil {
				return err
			}
		}
	}
	return nil
}
