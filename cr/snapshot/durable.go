package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// readIfThere reads a file of a job. One that is missing is the zero value. trust says that it may
// belong to any user.
func readIfThere[T any](path string, most int64, trust bool, parse func([]byte) (T, error)) (none T, err error) {
	b, err := readIn(path, most, trust)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, explain(err)
	}
	v, err := parse(b)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	return explain(store.SyncFolder(path))
}

// writeDurable writes the file path under another name, makes it durable, renames it and makes the name durable.
func writeDurable(path string, data []byte) error {
	if err := writePart(path, data); err != nil {
		return err
	}
	if err := os.Rename(path+partSuffix, path); err != nil {
		return explain(err)
	}
	return syncFolder(filepath.Dir(path))
}

// partSuffix ends the names of files that are not finished.
const partSuffix = store.PartSuffix

func writePart(path string, data []byte) error {
	f, err := os.OpenFile(path+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return explain(err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path + partSuffix)
		return explain(err)
	}
	return nil
}
