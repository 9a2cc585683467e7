package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock of seats, which all processes of a machine share and which cannot be set.
func Now() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano())
}

// Folder is where the seats of this user are. XDG_RUNTIME_DIR may be stale, as after su.
func Folder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return filepath.Join(dir, "gorun-devices")
		}
	}
	return fmt.Sprintf("/tmp/gorun-%d-devices", os.Getuid())
}

// Table is a folder of seats, as one agent has it. The folder exists as long as a process has a
// seat.
type Table struct {
	dir string

	mu       sync.Mutex
	watchers map[chan struct{}]bool // of this agent's seats
	watch    *os.File
}

// NewTable returns the table in a folder.
func NewTable(dir string) *Table {
	return &Table{dir: dir, watchers: map[chan struct{}]bool{}}
}

// Held is a seat of this agent's. One goroutine uses it.
type Held struct {
	File    *os.File      // locked, for a process to inherit: the seat is taken until that and Held have ended
	Changed chan struct{} // gets a value when any seat has changed
	table   *Table
	name    string
}

// Join takes a seat. Errors: somebody has the device for himself, or is to have it and others are there.
func (t *Table) Join(s Seat) (*Held, error) {
	release, err := t.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := t.read()
	if err != nil {
		return nil, err
	}
	if err := s.fits(all); err != nil {
		return nil, errors.Join(err, t.empty())
	}
	f, err := os.CreateTemp(t.dir, "seat-")
	if err != nil {
		return nil, err
	}
	h := &Held{File: f, Changed: make(chan struct{}, 1), table: t, name: filepath.Base(f.Name())}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		err = write(f, &s)
	}
	if err == nil {
		err = t.listen(h.Changed)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close(), t.empty())
	}
	return h, nil
}

// fits refuses a seat beside one that has the device for itself.
func (s *Seat) fits(all []Seat) error {
	for _, o := range all {
		switch {
		case o.Device != s.Device:
		case o.Exclusive:
			return fmt.Errorf("rank %d of job %.8s has it for itself (-devices exclusive): wait for its end, or choose another device by GORUN_DEVICE", o.Rank, o.Job)
		case s.Exclusive:
			return fmt.Errorf("it cannot be had exclusively: rank %d of job %.8s has it, too: wait for its end, choose another device by GORUN_DEVICE, or use -devices share", o.Rank, o.Job)
		}
	}
	return nil
}

// Update calls f with all seats. f may change those of this agent; no other agent changes any meanwhile.
func (h *Held) Update(f func(all []Seat, mine *Seat)) error {
	release, err := h.table.lock()
	if err != nil {
		return err
	}
	defer release()
	all, err := h.table.read()
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name != h.name {
			continue
		}
		before := all[i]
		f(all, &all[i])
		if all[i] == before {
			return nil
		}
		return write(h.File, &all[i])
	}
	return fmt.Errorf("%s: somebody has removed %s", h.table.dir, h.name)
}

// Close gives the seat back. A process that has inherited it is to have ended.
func (h *Held) Close() error {
	h.table.deaf(h.Changed)
	release, err := h.table.lock()
	if err != nil {
		return errors.Join(err, h.File.Close())
	}
	defer release()
	return errors.Join(os.Remove(h.File.Name()), h.File.Close(), h.table.empty())
}

func write(f *os.File, s *Seat) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(text, 0); err != nil { // first: where there is no room, the seat stays what it was
		return err
	}
	return f.Truncate(int64(len(text)))
}

// lock makes the folder and locks it. The last one removes it, perhaps just before it is locked.
func (t *Table) lock() (release func() error, err error) {
	for {
		if err := os.Mkdir(t.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("the folder in which jobs share devices: %w", err)
		}
		f, err := os.OpenFile(t.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var have, there unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &have); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if have.Uid != uint32(os.Getuid()) || have.Mode&0o077 != 0 { // another process could hold its lock
			return nil, errors.Join(fmt.Errorf("%s is to be yours, with mode 0700; it is user %d's, with mode %#o: remove it, or set XDG_RUNTIME_DIR to a folder of your own",
				t.dir, have.Uid, have.Mode&0o777), f.Close())
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err == unix.EINTR {
			f.Close()
			continue
		} else if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", t.dir, err), f.Close())
		}
		if err := unix.Stat(t.dir, &there); err == nil && there.Ino == have.Ino {
			return f.Close, nil
		}
		f.Close()
	}
}

// empty removes the folder if no seat is left in it. Caller has the lock.
func (t *Table) empty() error {
	if err := os.Remove(t.dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// read reads all seats, and removes those of the dead. Caller has the lock.
func (t *Table) read() (all []Seat, err error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		s, alive, err := readSeat(filepath.Join(t.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if alive {
			all = append(all, s)
		}
	}
	return all, nil
}

// readSeat reads one. It is opened for reading only, so that a look is not noticed as a change.
func readSeat(path string) (s Seat, alive bool, err error) {
	if !strings.HasPrefix(filepath.Base(path), "seat-") {
		return s, false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return s, false, os.Remove(path)
	} else if err != unix.EWOULDBLOCK {
		return s, false, fmt.Errorf("%s: %w", path, err)
	}
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return s, false, fmt.Errorf("%s: %w", path, err)
	}
	s.Name = filepath.Base(path)
	return s, true, nil
}

// listen tells a channel of changes: of what is written, and of the end of a process with a seat.
func (t *Table) listen(c chan struct{}) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watch == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return fmt.Errorf("inotify: %w: raise fs.inotify.max_user_instances", err)
		}
		if _, err := unix.InotifyAddWatch(fd, t.dir, unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_DELETE); err != nil {
			return errors.Join(fmt.Errorf("inotify: %w", err), unix.Close(fd))
		}
		t.watch = os.NewFile(uintptr(fd), "inotify")
		go t.hear(t.watch)
	}
	t.watchers[c] = true
	return nil
}

func (t *Table) hear(watch *os.File) {
	buf := make([]byte, 4096)
	for {
		if _, err := watch.Read(buf); err != nil {
			return
		}
		t.mu.Lock()
		for c := range t.watchers {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		t.mu.Unlock()
	}
}

// deaf is the end of that. Without seats of this agent the folder may go and come again.
func (t *Table) deaf(c chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.watchers, c); len(t.watchers) == 0 && t.watch != nil {
		t.watch.Close()
		t.watch = nil
	}
}
