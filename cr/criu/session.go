package criu

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	criu "github.com/checkpoint-restore/go-criu/v8"
	"golang.org/x/sys/unix"
)

// session is one call of criu: a folder for its files and the worker process.
type session struct {
	b            *Backend
	dir          string // holds the two below
	images, work *os.File
}

// open makes the folders; close removes them.
func (b *Backend) open() (*session, error) {
	dir, err := os.MkdirTemp(b.Dir, "gorun-criu-")
	if err != nil {
		return nil, err
	}
	s := &session{b: b, dir: dir}
	if s.images, err = folder(dir, "images"); err == nil {
		s.work, err = folder(dir, "work")
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func folder(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// release closes what only criu needed open.
func (s *session) release() {
	s.images.Close() // nil is an error that does not matter
	s.work.Close()
}

func (s *session) close() error {
	s.release()
	return os.RemoveAll(s.dir)
}

// log is what criu complained of.
func (s *session) log(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, "work", name))
	if err != nil {
		return "it left no log"
	}
	return complaints(string(b))
}

// starting serializes the starts of workers: the library's socket is open to
// every child that is born meanwhile.
var starting sync.Mutex

// call starts a worker, with do on the thread that is to be the parent of what
// criu restores, and lets f talk to it. The keys of inherit are descriptors'
// names there, the values their numbers here.
func (s *session) call(do func(func()), inherit map[string]int, f func(*criu.Criu) error) error {
	c := criu.MakeCriu()
	c.SetCriuPath(s.b.command())
	if err := start(c, do, inherit); err != nil {
		return err
	}
	err := f(c)
	// A worker that has said that all is well is believed.
	if ended := c.Cleanup(); err != nil {
		err = errors.Join(err, ended)
	}
	return err
}

// spread is how many descriptors may be opened by others while a worker starts.
const spread = 64

// start makes the worker process. The library passes its socket under the number
// that it has here, beside those that are inherited as 3, 4, ...: the socket's
// must lie above these, and below the ones that os/exec uses while it moves them.
func start(c *criu.Criu, do func(func()), inherit map[string]int) error {
	starting.Lock()
	defer starting.Unlock()
	low := -1
	for low < 3+len(inherit) {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		low = fd
	}
	for name, fd := range inherit {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, low+spread)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(n), name)
		defer file.Close()
		c.AddInheritFd(name, file)
	}
	err := errors.New("the thread that starts processes has ended")
	do(func() { err = c.Prepare() })
	return err
}
