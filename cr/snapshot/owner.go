package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Many users may have their jobs in one folder. What another one could have written there is not read, and never removed: his schemas name
// programs, and his lists of stores name folders. Jobs, Find and what sweeps know of this user's jobs alone. What the user names himself is
// refused with its owner, ErrForeign, unless the catalogue trusts it.

// ErrForeign says that another user could have written a snapshot.
var ErrForeign = owned.ErrForeign

// Trust makes the catalogue read what belongs to others, because the user said so. It neither
// writes to that nor removes it.
func (c *Catalogue) Trust() { c.trust = true }

// Own reports whether the folder of the snapshot's job is this user's: only there anything is noted, added and removed.
func (s *Snapshot) Own() bool {
	d, err := owned.OpenFolder(filepath.Dir(s.Dir))
	if err != nil {
		return false
	}
	return d.Close() == nil
}

// Others tells which jobs of the catalogue belong to other users, with their owners.
func (c *Catalogue) Others() (map[string]int, error) {
	_, others, err := c.folders()
	return others, err
}

// openIn opens a file of a catalogue: trust says that it may belong to any user.
func openIn(path string, trust bool) (*os.File, error) {
	if trust {
		return owned.OpenTrusted(path)
	}
	d, err := owned.OpenFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Open(filepath.Base(path))
	if errors.Is(err, owned.ErrKind) {
		return owned.Open(path) // the user may have made a link
	}
	return f, err
}

// readIn reads such a file, of at most so many bytes.
func readIn(path string, most int64, trust bool) ([]byte, error) {
	f, err := openIn(path, trust)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w: more than %d bytes", path, ErrSchema, most)
	}
	return b, err
}

// makeJob makes a job's folder if need be. It refuses one that another user has made there.
func (c *Catalogue) makeJob(job string) error {
	d, err := owned.MakeFolder(c.JobDir(job))
	if err != nil {
		return explain(err)
	}
	return d.Close()
}

// sweeps reports whether a job's folder is one that this user's gorun has made. In a folder where others may rename what is not theirs,
// a folder of results may have got a job's name.
func (c *Catalogue) sweeps(job string) bool {
	d, err := owned.OpenFolder(c.JobDir(job))
	if err != nil {
		return false
	}
	defer d.Close()
	for _, name := range []string{lockFile, sequenceFile} {
		if f, err := d.Open(name); err == nil {
			f.Close()
			return true
		}
	}
	left, err := claims(c.JobDir(job)) // of a head that died before its first snapshot
	return err == nil && len(left) > 0
}
