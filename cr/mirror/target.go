package mirror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// A Target says what the pieces that a rank holds are kept in. There are two slots for each, used in turns.
type Target struct {
	name   string
	dir    string
	mapped bool
}

// Memory keeps pieces in the memory of the processes. It is the zero Target.
func Memory() Target { return Target{} }

// File keeps pieces in memory, and writes each to a file under dir with fsync before it counts.
// They survive the end of all processes: a new world in the same folder goes on from them. dir may
// be on a disk of the node or shared.
func File(dir string) Target { return Target{name: "file", dir: dir} }

// Mapped keeps pieces in mapped files under dir, written back by msync before they count. It is for persistent memory, where dir is on a file
// system that maps it directly. On a disk it does what File does, with less memory and more time.
func Mapped(dir string) Target { return Target{name: "mapped", dir: dir, mapped: true} }

// String returns "memory", "file DIR" or "mapped DIR".
func (t Target) String() string {
	if t.dir == "" {
		return t.kind()
	}
	return t.name + " " + t.dir
}

// kind is memory, file or mapped.
func (t Target) kind() string { return cmp.Or(t.name, "memory") }

// slot is the bytes of one epoch of a piece.
type slot struct {
	room []byte // as much as was ever needed, kept
	cut  twoslots.Cut
	meta meta
	got  []int64 // by part: bytes that have arrived

	reach int64  // of the parts that have begun to come
	base  *slot  // of the epoch that this one's parts are told by; nil: none
	there []bool // with a base: blocks that are not to be brought from it any more
}

// meta tells what a slot holds.
type meta struct {
	Size  int64    `json:"size"`
	Sums  []uint32 `json:"sums"`            // CRC32C of each block
	Parts []meta   `json:"parts,omitempty"` // of a parity: the images that it is made of
}

// ok reports whether bytes are what they were, and how many blocks are not.
func (m *meta) ok(b []byte) bool {
	if m.Size > int64(len(b)) {
		return false
	}
	return blocks(m.Size, func(i int, off, n int64) error {
		if i >= len(m.Sums) || checksum(b[off:off+n]) != m.Sums[i] {
			return errors.New("damaged")
		}
		return nil
	}) == nil
}

// fits reports whether the numbers can be a description of a piece.
func (m *meta) fits() bool {
	return m.Size >= 0 && m.Size <= mostImage && int64(len(m.Sums)) == max(1, (m.Size+blockSize-1)/blockSize) &&
		!slices.ContainsFunc(m.Parts, func(p meta) bool { return p.Parts != nil || !p.fits() })
}

// piece is the two slots of what a rank holds.
type piece struct {
	name  machine.Name
	slots [2]slot
	dir   string // of its files
}

// storage is where a description's pieces are. The folder of a rank is DIR/<description>/rank-00003, locked by the process that uses it:
//
//	LOCK, life.json           the life of the description, what it began with, what is complete
//	image-3.0.data, .json     slot 0 of the image of rank 3; the json is written last
//
// A process also uses unlocked folders: those of processes that have ended.
type storage struct {
	Target
	desc  string
	own   string
	locks map[string]*os.File // by folder
}

func openStorage(t Target, desc string, rank int) (*storage, error) {
	s := &storage{Target: t, desc: desc, locks: map[string]*os.File{}}
	if t.dir == "" {
		return s, nil
	}
	s.own = filepath.Join(t.dir, desc, fmt.Sprintf("rank-%05d", rank))
	for try := 1; ; try++ { // another process has it if ranks have moved and it goes on
		if err := os.MkdirAll(s.own, 0o700); err != nil {
			return nil, err
		}
		locked, err := s.lock(s.own)
		if err != nil || locked {
			return s, err
		}
		s.own = filepath.Join(t.dir, desc, fmt.Sprintf("rank-%05d-%d", rank, try))
	}
}

// lock claims a folder of this user's, until this process ends. Errors: owned.ErrForeign for one that another user has made, or could change.
func (s *storage) lock(dir string) (bool, error) {
	d, err := owned.OpenFolder(dir)
	if err != nil {
		return false, err
	}
	defer d.Close()
	f, err := d.OpenFile("LOCK", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return false, nil
		}
		return false, fmt.Errorf("lock %s: %w", dir, err)
	}
	s.locks[dir] = f
	return true, nil
}

// grow gives a slot room. What was in it is lost.
func (s *storage) grow(p *piece, i int, size int64) error {
	sl := &p.slots[i]
	if int64(len(sl.room)) >= size {
		return nil
	}
	s.free(sl)
	room, err := s.room(p, i, max(size, 1))
	if err != nil {
		return fmt.Errorf("room of %d bytes for %v of %q in %v: %w", size, p.name, s.desc, s.Target, err)
	}
	sl.room = room
	return nil
}

func (s *storage) room(p *piece, i int, size int64) ([]byte, error) {
	if !s.mapped {
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err == nil {
			unix.Madvise(b, unix.MADV_HUGEPAGE) // where it cannot, pages are small
		}
		return b, err
	}
	f, err := os.OpenFile(p.path(i, "data"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil { // else a full disk would be a fault
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (s *storage) free(sl *slot) {
	if sl.room != nil {
		unix.Munmap(sl.room)
		sl.room = nil
	}
}

// path is that of a file of a slot.
func (p *piece) path(i int, kind string) string {
	name := "image-" + p.name.Of
	if p.name.Parity > 0 {
		h := fnv.New64a()
		h.Write([]byte(p.name.Of))
		name = fmt.Sprintf("parity-%d-of-%x", p.name.Parity, h.Sum64())
	}
	return filepath.Join(p.dir, fmt.Sprintf("%s.%d.%s", name, i, kind))
}

// begin makes a slot ready for an epoch: what it had counts no more.
func (s *storage) begin(p *piece, i int, c twoslots.Cut, parts int) error {
	sl := &p.slots[i]
	*sl = slot{room: sl.room, cut: c, got: make([]int64, parts)}
	if s.dir == "" {
		return nil
	}
	if p.dir == "" {
		p.dir = s.own
	}
	if err := os.Remove(p.path(i, "json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// record is a slot's json.
type record struct {
	Name machine.Name `json:"name"`
	Cut  twoslots.Cut `json:"cut"`
	Meta meta         `json:"meta"`
}

// persist makes a slot, as it was, as durable as the target is.
func (s *storage) persist(p *piece, i int, sl slot) error {
	if s.dir == "" {
		return nil
	}
	err := s.write(p, i, sl)
	if err == nil {
		err = writeJSON(p.path(i, "json"), record{p.name, sl.cut, sl.meta}, true)
	}
	if err != nil {
		return fmt.Errorf("%v of %q in %v: %w", p.name, s.desc, s.Target, err)
	}
	return nil
}

func (s *storage) write(p *piece, i int, sl slot) error {
	if s.mapped {
		return unix.Msync(sl.room[:max(1, sl.meta.Size)], unix.MS_SYNC)
	}
	f, err := os.OpenFile(p.path(i, "data"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(sl.room[:sl.meta.Size], 0)
	return cmp.Or(err, f.Truncate(sl.meta.Size), f.Sync(), f.Close())
}

// writeJSON replaces a file, durably if asked to.
func writeJSON(path string, v any, durable bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil || !durable {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}

// told is a folder's life.json.
type told struct {
	Life     uint32       `json:"life"`
	From     twoslots.Cut `json:"from"`
	Complete twoslots.Cut `json:"complete"`
}

// tell notes the life of the description in all folders.
func (s *storage) tell(t told, durable bool) error {
	for dir := range s.locks {
		if err := writeJSON(filepath.Join(dir, "life.json"), t, durable); err != nil {
			return fmt.Errorf("description %q in %v: %w", s.desc, s.Target, err)
		}
	}
	return nil
}

// forget gives up a piece.
func (s *storage) forget(p *piece) {
	for i := range p.slots {
		s.free(&p.slots[i])
		if s.dir != "" && p.dir != "" {
			os.Remove(p.path(i, "json"))
			os.Remove(p.path(i, "data"))
		}
	}
}

// close frees memory and locks; files stay.
func (s *storage) close(pieces map[machine.Name]*piece) {
	for _, p := range pieces {
		for i := range p.slots {
			s.free(&p.slots[i])
		}
	}
	for _, f := range s.locks {
		f.Close()
	}
}

// widen gives a slot room for a part, and keeps what is in it of others.
func (s *storage) widen(p *piece, i int, size int64) error {
	sl := &p.slots[i]
	if int64(len(sl.room)) < size {
		old := slices.Clone(sl.room[:sl.reach])
		if err := s.grow(p, i, size); err != nil {
			return err
		}
		copy(sl.room, old)
	}
	sl.reach = max(sl.reach, size)
	return nil
}

// remove gives up everything, with files and folders.
func (s *storage) remove(pieces map[machine.Name]*piece) (err error) {
	s.close(pieces)
	for dir := range s.locks {
		err = cmp.Or(err, owned.RemoveFolder(dir))
	}
	if s.dir != "" {
		os.Remove(filepath.Join(s.dir, s.desc)) // the last one finds it empty
	}
	return err
}
