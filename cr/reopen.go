package cr

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/outfile"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// reopen opens a file of the image again. It changes nothing of it: settle does, within the first Point.
func (r *Registry) reopen(x *file, flag int, perm fs.FileMode) error {
	policy := whole.FilesPolicy(r.j.Files())
	x.path += x.place.Suffix
	if x.writes && policy == whole.FilesCopy {
		if err := r.copyFile(x); err != nil {
			return err
		}
	}
	// Another user may have planted a link since.
	err := r.openAs(x, owned.OpenFile, flag&^(os.O_CREATE|os.O_EXCL|os.O_TRUNC), perm)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return x.fileErr("put it back, or restart from another snapshot", "it is missing: %w", err)
	case err != nil:
		return err
	}
	if policy != whole.FilesKeep {
		if err := r.unchanged(x); err != nil {
			return err
		}
		if err := r.lock(x, "end that one, or use -files copy or -files keep"); err != nil {
			return err
		}
	}
	x.back = true
	if !x.writes {
		return nil
	}
	x.grown, err = x.f.Seek(0, io.SeekEnd)
	return err
}

// copyFile makes the copy that the program goes on in.
func (r *Registry) copyFile(x *file) error {
	const remedy = "make room or rights for a copy beside it, or use -files keep"
	st, err := os.Stat(x.path)
	if err != nil {
		return x.fileErr("put it back, or restart from another snapshot", "%w", err)
	}
	if err := x.longEnough(st); err != nil {
		return err
	}
	tag := r.tag()
	if _, err := outfile.Copy(x.path, tag, x.place.Size, st.Mode().Perm()); err != nil {
		return x.fileErr(remedy, "copying it: %w", err)
	}
	x.place.Suffix += outfile.CopyName("", tag)
	x.path = outfile.CopyName(x.path, tag)
	return nil
}

// tag names what this restart makes beside a file.
func (r *Registry) tag() string { return fmt.Sprintf("%016x", r.j.Incarnation()) }

func (x *file) longEnough(st fs.FileInfo) error {
	if st.Size() < x.place.Size {
		return x.fileErr("put back what it held, or use -files keep to go on with it as it is",
			"it has %d bytes, when it was imaged it had %d", st.Size(), x.place.Size)
	}
	return nil
}

// unchanged checks that it is the file that was imaged, or a copy of it: files come back from a backup, and
// snapshots go to other machines.
func (r *Registry) unchanged(x *file) error {
	st, err := x.f.Stat()
	if err != nil {
		return x.fileErr("make it accessible as it was", "%w", err)
	}
	if err := x.longEnough(st); err != nil {
		return err
	}
	if inode, born, err := identity(x.path); err == nil && inode == x.place.Inode && born == x.place.Born {
		return nil
	}
	if now := ends(x.path, x.place.Size); now == 0 || now != x.place.Ends {
		return x.fileErr("put back the file that was there, or use -files keep to go on with this one",
			"it is another file than the one that was imaged")
	}
	return nil
}

// settle brings the files of the image to where they stood. The program is within its first Point.
func (r *Registry) settle() error {
	for _, x := range r.opened() {
		if !x.back {
			continue
		}
		x.back = false
		if err := r.settleFile(x); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) settleFile(x *file) error {
	if x.writes && whole.FilesPolicy(r.j.Files()) != whole.FilesKeep {
		if err := r.cut(x); err != nil {
			return err
		}
	}
	_, err := x.f.Seek(x.place.Offset, io.SeekStart)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return x.fileErr("make it accessible as it was", "%w", err)
	}
	return nil
}

// cut takes back what was written since the image. What the run before has written is kept.
func (r *Registry) cut(x *file) error {
	const remedy = "make room or rights for it, or use -files copy or -files keep"
	size := x.place.Size
	if x.grown > size {
		kept, err := outfile.KeepTail(x.path, size, x.grown, r.tag())
		if err != nil {
			return x.fileErr(remedy, "keeping what it holds beyond %d bytes: %w", size, err)
		}
		if err := r.j.Tail(kept); err != nil {
			return err
		}
	}
	st, err := os.Stat(x.path)
	switch {
	case err == nil && st.Size() < size:
		return x.fileErr("leave it alone before the first Point: os.O_TRUNC empties it in the first run only", "it was cut to %d bytes since it was opened again, and had %d", st.Size(), size)
	case err == nil && st.Size() > size:
		err = truncate(x.path, size)
	}
	if err != nil {
		return x.fileErr(remedy, "cutting it to %d bytes: %w", size, err)
	}
	return nil
}

// truncate is os.Truncate, and follows no link of another user. The program may have closed its own descriptor.
func truncate(path string, size int64) error {
	f, err := owned.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// endBytes is how much of the beginning, and of the end, tells one file from another.
const endBytes = 4096

// ends is a hash of the first and the last of a file's first size bytes, and of size. It is 0 if they cannot be read.
func ends(path string, size int64) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	h := fnv.New64a()
	fmt.Fprintln(h, size)
	for _, from := range []int64{0, max(0, size-endBytes)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, from, min(endBytes, size-from))); err != nil {
			return 0
		}
	}
	return max(h.Sum64(), 1)
}

// unsynced are descriptors of the files that may be written, for sync.
func (r *Registry) unsynced() (fds []int, err error) {
	for _, x := range r.opened() {
		if !x.writes {
			continue
		}
		fd, err := -1, error(nil)
		if isClosed(x.f) {
			fd, err = unix.Open(x.path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		} else {
			fd, err = unix.FcntlInt(x.f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
		if err != nil {
			closeAll(fds)
			return nil, x.fileErr("close less, or raise the limit of open files", "%w", err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
