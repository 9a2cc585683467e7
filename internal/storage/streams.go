package storage

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// streams are the files that the user has redirected this gorun's output to. They are noted beside the snapshots, for a restart by another.
type streams struct{ once sync.Once }

// note writes them down, with the first snapshot. It is called beside the head's goroutine.
// It ignores a folder that cannot be written: the restart then names one file too many.
func (t *streams) note(sv *Service) {
	t.once.Do(func() {
		var paths []string
		for _, w := range []any{sv.opt.Stdout, sv.opt.Stderr} {
			f, ok := w.(*os.File)
			if !ok {
				continue
			}
			st, err := f.Stat()
			if path, lerr := os.Readlink(owned.Descriptor(f)); err == nil && lerr == nil && st.Mode().IsRegular() && filepath.IsAbs(path) {
				paths = append(paths, path)
			}
		}
		if len(paths) > 0 {
			_ = sv.cat.AddStreams(sv.id, paths...)
		}
	})
}

// FormerStreams are the files noted by former goruns of the job. It is safe beside the head's
// goroutine.
func (sv *Service) FormerStreams() (all []string) {
	if sv.cat == nil {
		return nil
	}
	for _, c := range sv.catalogues() {
		if paths, err := c.Streams(sv.id); err == nil {
			all = append(all, paths...)
		}
	}
	return all
}

// AddTail records a file that holds what a restart has cut off an output file, for gorun snapshots
// -tails.
func (sv *Service) AddTail(path string) {
	work(sv, func() (struct{}, error) { return struct{}{}, sv.cat.AddTail(sv.id, path) }, func(_ struct{}, err error) {
		if err != nil {
			sv.say("gorun snapshots -tails will not list it: %v", err)
		}
	})
}
