package mem

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// claim is a slot to which a piece is being written.
type claim struct {
	m          *Memory
	s          *slot
	set, piece string
	first      bool // of its name here
	once       sync.Once
}

// claim lends a slot for a piece of about so many bytes.
func (m *Memory) claim(set, piece string, size int64) (*claim, error) {
	if err := errors.Join(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fs.ErrClosed
	case m.sets[set] == nil:
		return nil, fmt.Errorf("%s: not begun in this node's memory: %w", set, fs.ErrNotExist)
	case size < 0:
		return nil, fmt.Errorf("%s/%s: %d bytes: %w", set, piece, size, fs.ErrInvalid)
	}
	s := m.take(piece, size)
	grows := max(size-s.bytes, 0)
	first := m.turn(piece)
	turn := int64(0)
	if first {
		turn = size
	}
	if free := m.left(); grows+turn > free {
		if s.f != nil {
			m.idle = append(m.idle, s)
		}
		return nil, m.noRoom(set, piece, grows+turn, free)
	}
	if s.f == nil {
		fd, err := unix.MemfdCreate("gorun-image", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("memory for an image: %w", err)
		}
		s.f = os.NewFile(uintptr(fd), "gorun-image")
	}
	s.grows, s.last = grows, piece
	m.promised += grows
	m.promise(piece, turn)
	return &claim{m: m, s: s, set: set, piece: piece, first: first}, nil
}

// noRoom says what does not fit, and what helps.
func (m *Memory) noRoom(set, piece string, needs, free int64) error {
	return fmt.Errorf("%s/%s: %w: two snapshots in turn need %d MB more and %d MB are free, of the machine or of its control group, while %d MB hold other images: give the job more nodes or memory, or keep its snapshots on disks (-ckpt-local, -ckpt-dir)",
		set, piece, ErrRoom, needs>>20, free>>20, m.held>>20)
}

// turn is asked when a piece is to be written. It reports whether this is the first one of its name here: then a second
// slot will be needed, in turn with this one. What was promised to that is given up, because it is taken now. The memory is
// locked.
func (m *Memory) turn(piece string) (first bool) {
	_, again := m.turns[piece]
	if again {
		m.promise(piece, 0)
	}
	return !again && len(m.idle) == 0
}

// promise sets room for the second slot of a piece aside. The memory is locked.
func (m *Memory) promise(piece string, bytes int64) {
	m.promised += bytes - m.turns[piece]
	m.turns[piece] = bytes
}

// forget gives up what was promised to a piece: it has not come to a second one. The memory is locked.
func (m *Memory) forget(piece string) {
	if m.turns[piece] > 0 {
		m.promise(piece, 0)
		delete(m.turns, piece)
	}
}

// left is the free memory that is not promised. The memory is locked.
func (m *Memory) left() int64 {
	return max(int64(min(m.free(), math.MaxInt64))-m.promised, 0)
}

// take takes an idle slot: that of a piece of the same name, else the one whose size differs least. If there is none it
// is a new one, without a file.
func (m *Memory) take(piece string, size int64) *slot {
	best, least := -1, int64(math.MaxInt64)
	for i, s := range m.idle {
		differ := max(s.bytes-size, size-s.bytes)
		if s.last == piece {
			differ = 0
		}
		if differ < least {
			best, least = i, differ
		}
	}
	if best < 0 {
		return &slot{}
	}
	s := m.idle[best]
	m.idle = slices.Delete(m.idle, best, best+1)
	return s
}

// grow sets room aside for a piece of so many bytes, before any of it is written.
func (c *claim) grow(bytes int64) error {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes < 0 {
		return fmt.Errorf("%s/%s: %d bytes: %w", c.set, c.piece, bytes, fs.ErrInvalid)
	}
	more, turn := max(bytes-c.s.bytes-c.s.grows, 0), int64(0)
	if c.first {
		turn = max(bytes-m.turns[c.piece], 0)
	}
	if free := m.left(); more+turn > free {
		return m.noRoom(c.set, c.piece, more+turn, free)
	}
	c.s.grows += more
	m.promised += more
	if turn > 0 {
		m.promise(c.piece, bytes)
	}
	return nil
}

func (c *claim) path() string { return c.s.path() }

// commit makes the piece that the slot has whole. Its size is that of the file.
func (c *claim) commit() error {
	err := store.ErrClosed
	c.once.Do(func() { err = c.publish() })
	return err
}

func (c *claim) publish() error {
	st, err := c.s.f.Stat()
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrote(c.s)
	pieces := m.sets[c.set]
	if err == nil && pieces == nil {
		err = fmt.Errorf("%s was removed meanwhile: %w", c.set, fs.ErrNotExist)
	}
	if err == nil && c.first { // its size is known only now
		m.promise(c.piece, 0)
		if free := m.left(); c.s.bytes > free {
			err = m.noRoom(c.set, c.piece, c.s.bytes, free)
		} else {
			m.promise(c.piece, c.s.bytes)
		}
	}
	if err != nil {
		c.failed()
		return err
	}
	if old := pieces[c.piece]; old != nil {
		m.dropped(old)
	}
	c.s.size, c.s.gone = st.Size(), false
	pieces[c.piece] = c.s
	return nil
}

// abort gives the slot back.
func (c *claim) abort() error {
	c.once.Do(func() {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.m.wrote(c.s)
		c.failed()
	})
	return nil
}

// failed gives the slot back of a piece that did not come to be. The memory is locked.
func (c *claim) failed() {
	if c.first {
		c.m.promise(c.piece, 0)
		delete(c.m.turns, c.piece)
	}
	c.m.dropped(c.s)
}

// wrote records that a slot is not written to any more. The memory is locked.
func (m *Memory) wrote(s *slot) {
	m.promised -= s.grows
	s.grows = 0
	var st unix.Stat_t
	if err := unix.Fstat(int(s.f.Fd()), &st); err == nil {
		m.held += st.Blocks*512 - s.bytes
		s.bytes = st.Blocks * 512
	}
}

// dropped records that a slot has no piece any more. The memory is locked.
func (m *Memory) dropped(s *slot) {
	s.gone = true
	m.rest(s)
}

// rest returns an unneeded slot for reuse. The memory is locked.
func (m *Memory) rest(s *slot) {
	switch {
	case !s.gone || s.readers > 0:
	case m.closed:
		s.f.Close()
	default:
		s.gone = false
		m.idle = append(m.idle, s)
	}
}
