package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Slot is a Writer of a file that is there and stays there: memory (memfd, tmpfs) that is used
// again. Fresh pages cost several times what those cost that are there, so a slot is overwritten
// and cut at the end, and never replaced. Its pages are mapped, because a copy to them is faster
// than write(2).
//
// The file has no name to be given up to Commit: whoever has lent the slot knows whether its content counts. It lends
// it to one Writer at a time.
type Slot struct {
	f    *os.File
	of   *Slots // keeps the mappings; nil: nobody
	id   slotID
	kept [][]byte // mappings of the last time, as parts

	mu     sync.RWMutex // held for writing while something is mapped, or unmapped
	parts  [][]byte     // of slotPart bytes each; nil: not mapped
	size   int64        // of the file
	closed bool
}

// slotPart is how much is mapped at once.
const slotPart = 32 << 20

// OpenSlot opens a slot by its path, such as /proc/PID/fd/N.
func OpenSlot(path string) (*Slot, error) { return (*Slots)(nil).Open(path) }

// Open is like OpenSlot. A slot that was written here before is mapped already.
func (k *Slots) Open(path string) (*Slot, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &Slot{f: f, of: k, size: st.Size()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && k != nil {
		s.id = slotID{sys.Dev, sys.Ino}
		s.kept = k.take(s.id)
	}
	return s, nil
}

// File is the open file.
func (s *Slot) File() *os.File { return s.f }

// Used marks a Writer whose piece has, where nothing is written, what was there before.
func (s *Slot) Used() {}

// WriteAt writes p at off.
func (s *Slot) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("write at %d: %w", off, fs.ErrInvalid)
	}
	for n < len(p) {
		i, at := int((off+int64(n))/slotPart), (off+int64(n))%slotPart
		k, err := s.copy(i, at, p[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// copy writes to one part as much of p as it has room for.
func (s *Slot) copy(i int, at int64, p []byte) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for s.closed || i >= len(s.parts) || s.parts[i] == nil {
		if s.closed {
			return 0, ErrClosed
		}
		s.mu.RUnlock()
		err := s.open(i)
		s.mu.RLock()
		if err != nil {
			return 0, err
		}
	}
	return copy(s.parts[i][at:], p), nil
}

// open maps a part. The pages of it that are there are mapped at once: that costs less than a fault for each.
func (s *Slot) open(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parts) <= i {
		s.parts = append(s.parts, nil)
	}
	if s.closed || s.parts[i] != nil {
		return nil
	}
	from, old := int64(i)*slotPart, s.size
	if end := from + slotPart; end > s.size {
		if err := s.f.Truncate(end); err != nil {
			return err
		}
		s.size = end
	}
	if i < len(s.kept) && s.kept[i] != nil {
		s.parts[i], s.kept[i] = s.kept[i], nil
		return nil
	}
	m, err := unix.Mmap(int(s.f.Fd()), from, slotPart, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap %s: %w", s.f.Name(), err)
	}
	if there := min(old-from, slotPart); there > 0 {
		_ = unix.Madvise(m[:there], unix.MADV_POPULATE_WRITE) // from Linux 5.14 on; without it pages come one by one
	}
	s.parts[i] = m
	return nil
}

// Commit cuts the file to size.
func (s *Slot) Commit(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: %w", s.f.Name(), ErrClosed)
	}
	err := s.unmap()
	if e := s.f.Truncate(size); err == nil {
		err = e
	}
	if e := s.f.Close(); err == nil {
		err = e
	}
	return err
}

// Abort ends the writing. The content of the file is undefined then.
func (s *Slot) Abort() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return errors.Join(s.unmap(), s.f.Close())
}

// unmap ends the use of the memory. The slot is locked, so no process writes.
func (s *Slot) unmap() error {
	s.closed = true
	parts := s.parts
	for i, m := range s.kept {
		if m == nil {
			continue
		}
		for len(parts) <= i {
			parts = append(parts, nil)
		}
		parts[i] = m
	}
	s.parts, s.kept = nil, nil
	if s.of != nil && s.of.put(s.id, parts) {
		return nil
	}
	return unmapAll(parts)
}

func unmapAll(parts [][]byte) (err error) {
	for _, m := range parts {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
		}
	}
	return err
}

// Slots keeps what it has mapped of slots for the next time that they are written: to map pages that are there costs
// as much as to copy to them. The zero value is ready to use. It is safe for concurrent use.
type Slots struct {
	mu     sync.Mutex
	kept   map[slotID][][]byte
	closed bool
}

// slotID tells slots apart. A mapping keeps its file, so the numbers are not given to another one meanwhile.
type slotID struct{ dev, ino uint64 }

func (k *Slots) take(id slotID) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	parts := k.kept[id]
	delete(k.kept, id)
	return parts
}

// put reports whether the mappings are kept.
func (k *Slots) put(id slotID, parts [][]byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.kept[id] != nil {
		return false
	}
	if k.kept == nil {
		k.kept = map[slotID][][]byte{}
	}
	k.kept[id] = parts
	return true
}

// Close gives up what is kept. Slots that are being written are unmapped when they end.
func (k *Slots) Close() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, parts := range k.kept {
		err = errors.Join(err, unmapAll(parts))
	}
	k.kept = nil
	return err
}
