package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Hold keeps a snapshot, those it builds on and its kept program from being pruned. It ends with Release, or
// with the process.
type Hold struct{ files []*os.File }

// Hold protects the snapshot for the restart that uses it. Errors: ErrNotFound if it was pruned meanwhile,
// those of Chain. On a read-only file system nothing can be pruned, and nothing can be locked if the lock's
// file is missing. The Hold is then empty. If a kept program is missing, Check reports it.
func (s *Snapshot) Hold() (*Hold, error) {
	// This one first: from then on Prune also spares what it builds on.
	h := &Hold{}
	if err := h.add(s); err != nil {
		return nil, err
	}
	err := h.addChain(s)
	if err == nil && s.Schema.Program.Kept {
		err = h.addProgram(s.ProgramPath())
		for _, digest := range s.Schema.Program.Libraries {
			err = errors.Join(err, h.addProgram(s.LibraryPath(digest)))
		}
	}
	if err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// addChain holds what the snapshot builds on.
func (h *Hold) addChain(s *Snapshot) error {
	chain, err := s.Chain()
	if err != nil {
		return err
	}
	for _, base := range chain[1:] {
		if err := h.add(base); err != nil {
			return err
		}
	}
	return nil
}

// add holds one snapshot.
func (h *Hold) add(s *Snapshot) error {
	f, busy, err := s.share()
	switch {
	case errors.Is(err, fs.ErrNotExist) && readOnly(s.Dir):
		return nil
	case errors.Is(err, fs.ErrNotExist), busy:
		return fmt.Errorf("%s: %w: it is being removed or committed by another gorun", s.Dir, ErrNotFound)
	case err != nil:
		return err
	}
	// Prune may have removed it after it was found and before it was locked.
	if _, err := os.Lstat(s.SchemaPath()); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w: it has been removed", s.Dir, ErrNotFound)
	}
	h.files = append(h.files, f)
	return nil
}

// share locks the snapshot for use.
func (s *Snapshot) share() (f *os.File, busy bool, err error) {
	const how = unix.LOCK_SH | unix.LOCK_NB
	path := filepath.Join(s.Dir, lockFile)
	if !s.trust {
		return flock(path, how)
	}
	if f, err = owned.OpenTrusted(path); err != nil {
		return nil, false, err
	}
	return flockFile(f, how)
}

// addProgram holds a kept program, if it is there.
func (h *Hold) addProgram(path string) error {
	f, err := lockProgram(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h.files = append(h.files, f)
	return nil
}

func readOnly(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// Release ends the protection. A nil or released Hold does nothing.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	for _, f := range h.files {
		f.Close()
	}
	h.files = nil
}
