package state

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

const sharedRemedy = "-files copy goes on in a copy of it, -files keep in the file as it is"

// sharedFile is a file that ranks write to, as their images have it.
type sharedFile struct {
	whole.SharedFile
	least   int64 // its length in the image that saw it shortest
	appends bool  // by O_APPEND
	kept    int   // 1 + a rank whose image has its content; 0: none has
}

// SharedFiles lists the files that several ranks of a job write to, by their states. The error names those that cannot be
// brought back to what they were.
//
// While one rank is imaged others may go on that were imaged before. Where ranks write at places of
// their own (WriteAt) that does no harm: those that go on write there again. Appended data comes
// after the length, and its writer cannot be told. So such a file must not have grown between the
// first image and the last.
func SharedFiles(states []*State) (shared []whole.SharedFile, err error) {
	var errs []error
	for _, f := range writtenFiles(states) {
		if len(f.Ranks) < 2 {
			continue
		}
		if err := f.check(); err != nil {
			errs = append(errs, err)
		}
		shared = append(shared, f.SharedFile)
	}
	return shared, errors.Join(errs...)
}

func (f *sharedFile) check() error {
	switch {
	case f.appends && f.least != f.Size:
		return fmt.Errorf("%s is appended to by several ranks (%s) and has grown while they were imaged one after the other, from %d to %d bytes; it could not be cut to what all had written: checkpoint where no rank appends to it, have one rank write it, or write at places (WriteAt); %s",
			f.Path, wireup.Ranks(f.Ranks), f.least, f.Size, sharedRemedy)
	case f.kept > 0:
		return fmt.Errorf("%s is written to by several ranks (%s), and rank %d had it alone when it was imaged, so that all its content would come back of that moment: checkpoint when all have opened it; %s",
			f.Path, wireup.Ranks(f.Ranks), f.kept-1, sharedRemedy)
	}
	return nil
}

// writtenFiles lists all outputs, in the order of ranks. Two names on one node are one file if the system says so, and so
// is one name on two nodes if it is of the same inode and instant: their devices have other numbers.
func writtenFiles(states []*State) (all []*sharedFile) {
	known := map[string]*sharedFile{}
	for rank, s := range states {
		for _, m := range s.AllFiles() {
			if !m.Output() {
				continue
			}
			id := whole.FileID(m.Dev, m.Inode)
			here := fmt.Sprintf("%s %d", id, m.Born)
			there := fmt.Sprintf("%s %d %d", m.Path, m.Inode, m.Born)
			f := known[here]
			if f == nil {
				f = known[there]
			}
			if f == nil {
				f = &sharedFile{least: m.Size, SharedFile: whole.SharedFile{Path: m.Path}}
				all = append(all, f)
			}
			known[here], known[there] = f, f
			f.add(rank, id, &m)
		}
	}
	return all
}

func (f *sharedFile) add(rank int, id string, m *File) {
	if !slices.Contains(f.IDs, id) {
		f.IDs = append(f.IDs, id)
	}
	if !slices.Contains(f.Ranks, rank) {
		f.Ranks = append(f.Ranks, rank)
	}
	f.Size, f.least = max(f.Size, m.Size), min(f.least, m.Size)
	f.appends = f.appends || m.Flags&unix.O_APPEND != 0
	if m.Written {
		f.kept = rank + 1
	}
}
