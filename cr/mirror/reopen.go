package mirror

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// claim takes over the content of unlocked folders of the description. What cannot be read is left
// alone: it does not count.
func (s *storage) claim(pieces map[machine.Name]*piece, adopt func(machine.Name, twoslots.Slots)) error {
	if s.dir == "" {
		return nil
	}
	dirs, err := filepath.Glob(filepath.Join(s.dir, s.desc, "rank-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if s.locks[dir] != nil {
			continue
		}
		if locked, err := s.lock(dir); errors.Is(err, owned.ErrForeign) {
			continue
		} else if err != nil {
			return err
		} else if locked {
			s.load(dir, pieces, adopt)
		}
	}
	return nil
}

// load reads a folder.
func (s *storage) load(dir string, pieces map[machine.Name]*piece, adopt func(machine.Name, twoslots.Slots)) {
	var t told
	if !readJSON(filepath.Join(dir, "life.json"), &t) {
		return
	}
	found := map[machine.Name]*piece{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, path := range files {
		var r record
		if !readJSON(path, &r) || r.Name.Members() == nil || !r.Meta.fits() {
			continue
		}
		p := found[r.Name]
		if p == nil {
			p = &piece{name: r.Name, dir: dir}
		}
		for i := range p.slots {
			if p.path(i, "json") == path && s.read(p, i, r) == nil {
				found[r.Name] = p
			}
		}
	}
	for n, p := range found {
		if pieces[n] != nil {
			continue // this process has one: another copy on the same node is useless
		}
		pieces[n] = p
		adopt(n, twoslots.Reopen(t.Life, t.From, t.Complete, [2]twoslots.Cut{p.slots[0].cut, p.slots[1].cut}))
	}
}

// read brings a slot's bytes back. Whether they are what they were is checked with all others.
func (s *storage) read(p *piece, i int, r record) error {
	f, err := os.OpenFile(p.path(i, "data"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < r.Meta.Size {
		return io.ErrUnexpectedEOF
	}
	sl := &p.slots[i]
	if s.mapped && st.Size() > 0 {
		sl.room, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	} else if sl.room, err = s.room(p, i, max(1, r.Meta.Size)); err == nil {
		_, err = io.ReadFull(f, sl.room[:r.Meta.Size])
	}
	if err != nil {
		s.free(sl)
		return err
	}
	sl.cut, sl.meta = r.Cut, r.Meta
	return nil
}

func readJSON(path string, v any) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}
