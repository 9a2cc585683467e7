package mem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
)

// Memory is the part of the store on this node. It is safe for concurrent use.
type Memory struct {
	free  func() uint64
	slots store.Slots // that are written here, such as mirrors

	mu       sync.Mutex
	closed   bool
	sets     map[string]map[string]*slot
	idle     []*slot // unused, to be used again
	promised int64   // bytes by which slots that are being written may grow, and of turns
	held     int64   // bytes that slots have taken

	turns map[string]int64 // by piece: the bytes promised to its second slot; 0: none any more
}

var _ interface {
	node.Part
	store.Lender
} = (*Memory)(nil)

// slot is the room of one piece.
type slot struct {
	f     *os.File // memfd
	bytes int64    // that it has taken of this node's memory
	last  string   // the piece that it had last: the next of that name has about its size
	size  int64    // of its piece

	grows   int64 // promised to its writer
	readers int
	gone    bool // its piece was removed: it is idle when it is not read
}

// New returns an empty memory. free tells how many bytes the node has left; nil: any number.
func New(free func() uint64) *Memory {
	if free == nil {
		free = func() uint64 { return math.MaxInt64 }
	}
	return &Memory{free: free, sets: map[string]map[string]*slot{}, turns: map[string]int64{}}
}

// ErrRoom says that a piece does not fit into the memory of the node.
var ErrRoom = errors.New("it does not fit into the memory of the node")

// Kind is Kind.
func (m *Memory) Kind() string { return Kind }

// Shared is false.
func (m *Memory) Shared() bool { return false }

// Held is how many bytes of this node's memory the slots have.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Close gives all memory back. Pieces that are being read or written stay until that ends.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, pieces := range m.sets {
		for _, s := range pieces {
			m.dropped(s)
		}
	}
	clear(m.sets)
	m.slots.Close()
	for _, s := range m.idle {
		s.f.Close()
	}
	m.idle, m.held = nil, 0
	return nil
}

// Begin begins a set.
func (m *Memory) Begin(_ context.Context, set string) error {
	if err := store.CheckSet(set); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[set] != nil {
		return fmt.Errorf("%s: %w", set, fs.ErrExist)
	}
	if m.closed {
		return fs.ErrClosed
	}
	m.sets[set] = map[string]*slot{}
	return nil
}

// Create begins a piece. opt.Size, if it is known, is set aside.
func (m *Memory) Create(ctx context.Context, set, piece string, opt store.Options) (store.Writer, error) {
	return create(ctx, m, &m.slots, set, piece, opt)
}

// Lend lends a slot.
func (m *Memory) Lend(_ context.Context, set, piece string, opt store.Options) (store.Lent, error) {
	c, err := m.claim(set, piece, opt.Size)
	if err != nil {
		return store.Lent{}, err
	}
	return store.Lent{Path: c.path(), Grow: c.grow, Commit: c.commit, Abort: c.abort}, nil
}

// create begins a piece in a borrowed slot.
func create(ctx context.Context, from store.Lender, slots *store.Slots, set, piece string, opt store.Options) (store.Writer, error) {
	lent, err := from.Lend(ctx, set, piece, opt)
	if err != nil {
		return nil, err
	}
	s, err := slots.Open(lent.Path)
	if err != nil {
		lent.Abort()
		return nil, err
	}
	return &writing{Slot: s, lent: lent}, nil
}

// writing is a piece that is being written here.
type writing struct {
	*store.Slot
	lent store.Lent
}

// Commit gives the piece its name.
func (w *writing) Commit(size int64) error {
	if err := w.Slot.Commit(size); err != nil {
		if !errors.Is(err, store.ErrClosed) {
			w.lent.Abort()
		}
		return err
	}
	return w.lent.Commit()
}

// Abort gives the slot back.
func (w *writing) Abort() error { return errors.Join(w.Slot.Abort(), w.lent.Abort()) }

// Commit has nothing to do: a piece is as durable as its node.
func (m *Memory) Commit(_ context.Context, set string) error { return store.CheckSet(set) }

// find returns the slot of a piece. The memory is locked.
func (m *Memory) find(set, piece string) (*slot, error) {
	if err := errors.Join(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return nil, err
	}
	s := m.sets[set][piece]
	if s == nil {
		return nil, fmt.Errorf("%s/%s: not in this node's memory: %w", set, piece, fs.ErrNotExist)
	}
	return s, nil
}

// Path is where a piece can be read as a file, while its set is there.
func (m *Memory) Path(set, piece string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find(set, piece)
	if err != nil {
		return "", err
	}
	return s.path(), nil
}

func (s *slot) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.f.Fd()) }

// Open opens a piece. Its slot is not used again before it is closed.
func (m *Memory) Open(_ context.Context, set, piece string) (store.Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find(set, piece)
	if err != nil {
		return nil, err
	}
	s.readers++
	return &reader{m: m, s: s, size: s.size}, nil
}

type reader struct {
	m    *Memory
	s    *slot
	size int64
	once sync.Once
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) { return r.s.f.ReadAt(p, off) }
func (r *reader) Size() int64                             { return r.size }
func (r *reader) File() *os.File                          { return r.s.f }

func (r *reader) Close() error {
	r.once.Do(func() {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		r.s.readers--
		r.m.rest(r.s)
	})
	return nil
}

// Stat tells the size of a piece.
func (m *Memory) Stat(_ context.Context, set, piece string) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find(set, piece)
	if err != nil {
		return store.Info{}, err
	}
	return store.Info{Name: piece, Size: s.size}, nil
}

// List lists a set.
func (m *Memory) List(_ context.Context, set string) ([]store.Info, error) {
	if err := store.CheckSet(set); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pieces, ok := m.sets[set]
	if !ok {
		return nil, fmt.Errorf("%s: not in this node's memory: %w", set, fs.ErrNotExist)
	}
	all := []store.Info{}
	for name, s := range pieces {
		all = append(all, store.Info{Name: name, Size: s.size})
	}
	slices.SortFunc(all, func(a, b store.Info) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Sets lists the sets below a prefix.
func (m *Memory) Sets(_ context.Context, prefix string) ([]string, error) {
	if err := store.CheckSet(prefix); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for set := range m.sets {
		if rest, ok := strings.CutPrefix(set, prefix+"/"); ok {
			rest, _, _ = strings.Cut(rest, "/")
			all = append(all, prefix+"/"+rest)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Remove gives up a set, or all below it.
func (m *Memory) Remove(_ context.Context, set string) error {
	if err := store.CheckSet(set); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, pieces := range m.sets {
		if name == set || strings.HasPrefix(name, set+"/") {
			for piece, s := range pieces {
				m.forget(piece)
				m.dropped(s)
			}
			delete(m.sets, name)
		}
	}
	return nil
}

// Check checks an image, or a shard, where it lies.
func (m *Memory) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	return check(ctx, m, set, piece, whole)
}

func check(ctx context.Context, st store.Reading, set, piece string, whole bool) (int64, string, image.Meta, error) {
	if parity.IsShard(piece) {
		size, digest, err := parity.Check(ctx, st, set, piece, whole)
		return size, digest, image.Meta{}, err
	}
	return remote.Check(ctx, st, set, piece, whole)
}
