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
	opt.BlockSize = max(opt.BlockSize, image.DefaultBlockSize) // a window is four of them
	var readers []*windowReader
	defer func() {
		for _, r := range readers { // when no worker reads any more
			r.close()
		}
	}()
	err := c.each(func(c *captured) error {
		r, err := c.look()
		if err == nil {
			readers = append(readers, r)
		}
		return c.blame(err)
	})
	if err != nil {
		return image.Summary{}, err
	}
	family := []*state.State{c.state}
	for _, k := range c.kin {
		family = append(family, k.state)
	}
	m.Backend, m.Format, m.BuildID = state.Backend, state.FormatOf(family...), c.state.BuildID
	w, err := to.Create(m, opt)
	if err != nil {
		return image.Summary{}, err
	}
	err = c.contents(w)
	for i, one := range append([]*captured{c}, c.kin...) {
		if err == nil {
			err = one.sections(w, readers[i])
		}
	}
	if err == nil { // before the image counts
		err = synced()
	}
	if err != nil {
		w.Abort()
		return image.Summary{}, err
	}
	return w.Commit()
}

// look completes the state and opens the memory that is to be written.
func (c *captured) look() (*windowReader, error) {
	pid := c.pid
	if pid == 0 {
		pid = c.g.PID
	}
	maps, err := c.describe(pid)
	if err != nil {
		return nil, err
	}
	c.state.Base = c.base
	return c.newReader(pid, windowsOf(maps, c.state.Exe))
}

// sections writes those of one process.
func (c *captured) sections(w *image.Writer, r *windowReader) error {
	text, err := c.state.Encode()
	if err == nil {
		err = w.Section(c.state.Section(state.SectionName), state.KindProcess, "json", text)
	}
	for i := 0; err == nil && i < len(r.windows); i++ {
		err = w.SectionFill(c.state.Section(fmt.Sprintf("%012x", r.windows[i].base)), state.KindPages, pages.Window, func(p []byte) (int, string, error) {
			return r.read(i, p)
		})
	}
	return err
}

// syncFiles begins to bring the program's files to the disk; the function
// returned waits until they are there.
func (c *captured) syncFiles() func() error {
	done := make(chan error, 1)
	go func() {
		var err error
		var fds []int
		for _, r := range c.family.records {
			fds = append(fds, r.sync...)
		}
		for _, fd := range fds {
			if e := unix.Fsync(fd); e != nil && !errors.Is(e, unix.EINVAL) && !errors.Is(e, unix.EROFS) {
				err = errors.Join(err, fmt.Errorf("a file that the program writes to: fsync: %w", e))
			}
		}
		done <- err
	}()
	return sync.OnceValue(func() error { return <-done })
}

// contents writes what the family has in pipes, and in files and memory without a name.
func (c *captured) contents(w *image.Writer) error {
	for i := range c.family.contents {
		if k := &c.family.contents[i]; len(k.data) > 0 || k.kind == state.KindFile || k.kind == state.KindShared {
			if err := w.Section(k.name, k.kind, "", k.data); err != nil {
				return err
			}
		}
	}
	return nil
}
