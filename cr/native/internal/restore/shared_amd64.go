package restore

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// makeShared makes the shared memory that the process has no descriptor of.
func (d *descriptors) makeShared(s *state.State) error {
	for i := range s.Regions {
		r := &s.Regions[i]
		if !r.Own {
			continue
		}
		if r.Written {
			fd, err := d.written(r.Path, r.Inode, r.Mode)
			if err == nil {
				err = d.reaches(fd, r)
			}
			if err != nil {
				return err
			}
			continue
		}
		if _, made := d.deleted[r.Inode]; made {
			continue
		}
		data, err := d.content(state.KindShared, strconv.FormatUint(r.Inode, 10))
		if err != nil {
			return fmt.Errorf("shared memory at %#x: %w", r.Start, err)
		}
		fd, err := d.keep(unix.MemfdCreate("shared", unix.MFD_CLOEXEC))
		if err == nil {
			d.deleted[r.Inode] = fd
			err = writeAll(fd, data)
		}
		if err != nil {
			return fmt.Errorf("shared memory at %#x: %w", r.Start, err)
		}
	}
	return nil
}

// writeAll writes p at the beginning of a file.
func writeAll(fd int, p []byte) error {
	for at := 0; at < len(p); {
		n, err := unix.Pwrite(fd, p[at:], int64(at))
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// seal gives memory its seals again, which may forbid what was done to make it.
func (r *restore) seal() error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		fd, ok := r.files.deleted[f.Inode]
		if f.Seals == 0 || !ok || r.files.sealed[f.Inode] {
			continue
		}
		r.files.sealed[f.Inode] = true
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, f.Seals); err != nil {
			return fileError(f.Path, "use another snapshot", "seals %#x: %w", f.Seals, err)
		}
	}
	return nil
}
