package criu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// pack writes the state and every file of the folder dir into one image.
func pack(to image.Target, dir string, st *State, m image.Meta, opt image.Options) (image.Summary, error) {
	m.Backend, m.Format = Name, Format
	w, err := to.Create(m, opt)
	if err != nil {
		return image.Summary{}, err
	}
	defer w.Abort()
	state, err := json.Marshal(st.each(rawstring.Escape))
	if err != nil {
		return image.Summary{}, err
	}
	if err := w.Section(nameState, kindProcess, "", state); err != nil {
		return image.Summary{}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return image.Summary{}, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return image.Summary{}, fmt.Errorf("%s among criu's files is no regular file", e.Name())
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return image.Summary{}, err
		}
		defer f.Close() // it is read until Commit has returned
		fi, err := f.Stat()
		if err != nil {
			return image.Summary{}, err
		}
		if err := w.SectionFrom(e.Name(), kindFile, "", uint64(fi.Size()), f); err != nil {
			return image.Summary{}, err
		}
	}
	return w.Commit()
}

// unpack puts criu's files back into the folder dir.
func unpack(r *image.Reader, dir string) error {
	found := false
	for _, s := range r.Sections() {
		if s.Kind != kindFile {
			continue
		}
		if s.Name != filepath.Base(s.Name) || strings.HasPrefix(s.Name, ".") {
			return fmt.Errorf("%w: %s: a file called %q", ErrImage, r.Path(), s.Name)
		}
		if err := unpackFile(r, s, filepath.Join(dir, s.Name)); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%w: %s: it holds no file of criu's", ErrImage, r.Path())
	}
	return nil
}

// unpackFile reads a section into a mapping of the new file, so that memory for
// the whole of it is never needed.
func unpackFile(r *image.Reader, s image.Section, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.Size == 0 {
		return nil
	}
	// Blocks now, or a full disk would be a bus error below.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(s.Size)); err != nil {
		return &os.PathError{Op: "fallocate", Path: path, Err: err}
	}
	p, err := unix.Mmap(int(f.Fd()), 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	defer unix.Munmap(p)
	return r.ReadSection(kindFile, s.Name, p)
}
