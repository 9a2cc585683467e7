package restore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/outfile"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// ErrFiles is wrapped where a file that the program had open cannot be had again
// as it was.
var ErrFiles = errors.New("an open file cannot be had again")

// fileError says which file cannot be had again, why, and what to do.
func fileError(path, remedy, why string, args ...any) error {
	return fmt.Errorf("%w: %s: %w (%s)", ErrFiles, path, fmt.Errorf(why, args...), remedy)
}

// settable are the flags of a descriptor that fcntl can change.
const settable = unix.O_APPEND | unix.O_NONBLOCK | unix.O_DIRECT | unix.O_NOATIME

// openFlags are the flags with which a file is opened again.
func openFlags(flags int) int {
	const once = unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_ASYNC
	if flags&unix.O_TMPFILE == unix.O_TMPFILE { // it holds O_DIRECTORY
		flags &^= unix.O_TMPFILE
	}
	return flags&^once | unix.O_NOCTTY | unix.O_CLOEXEC
}

// moreFiles is why descriptors may not suffice for a restart; the remedy is added
// where the limit is known.
const moreFiles = "an agent has the files of all its ranks open while it restores them"

// reopener opens the regular files of one process again.
type reopener struct {
	policy whole.FilesPolicy
	tag    string
	locked map[[2]uint64]bool // device and inode of files locked for an earlier descriptor
	locks  []*outfile.Lock
	shared []whole.SharedFile // that this rank writes to with others
	rank   int
	cuts   []cut
	common []cut    // of shared files that this rank cuts for all
	copies []string // made here
	tails  []string // kept of what was cut
	notes  []string // what the user ought to know
}

// cut is a file to be brought back to its length.
type cut struct {
	path string
	fd   int
	to   int64
}

// open opens f, which is not deleted, as it was.
func (o *reopener) open(f *state.File) (int, error) {
	// Nonblocking, so that a pipe that now has the name cannot hold us.
	fd, err := owned.OpenLinked(f.Path, openFlags(f.Flags)|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(f.Path, "/sys/fs/cgroup/") && f.Flags&unix.O_ACCMODE == unix.O_RDONLY {
			return placeholder() // no limit
		}
		return -1, o.failed(f, err)
	}
	fd, err = o.check(fd, f)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// placeholder stands for a file without content. As that of a control group that is
// gone, as that of an earlier job is: Go programs keep the files of theirs open, read
// them now and then, and take one without content for no limit.
func placeholder() (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0) }

// failed explains why a file cannot be opened.
func (o *reopener) failed(f *state.File, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileError(f.Path, "put it back, or restart from another snapshot", "it is missing: %w", err)
	case errors.Is(err, unix.EMFILE):
		return fileError(f.Path, moreFiles, "%w", err)
	case errors.Is(err, fs.ErrPermission):
		return fileError(f.Path, "give this user access to it", "%w", err)
	}
	return fileError(f.Path, "make it accessible as it was", "%w", err)
}

// check applies the rules to the file opened as fd, and returns the descriptor
// that the program gets; it closes nothing but what it replaces.
func (o *reopener) check(fd int, f *state.File) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fd, o.failed(f, err)
	}
	if f.Mode != 0 && st.Mode&unix.S_IFMT != f.Mode&unix.S_IFMT {
		return fd, fileError(f.Path, "put the file back that was there", "it has been replaced by something of another kind")
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || virtual(f.Path) || f.Flags&unix.O_PATH != 0 {
		return fd, o.place(fd, f, st.Mode&unix.S_IFMT == unix.S_IFCHR)
	}
	writes := f.Flags&unix.O_ACCMODE != unix.O_RDONLY
	if writes && o.policy == whole.FilesCopy {
		copied, err := o.copyOf(fd, f, &st)
		if err != nil {
			return fd, err
		}
		unix.Close(fd)
		return copied, o.place(copied, f, false)
	}
	size := f.Size
	with := o.sharedFile(f)
	if with != nil {
		size = with.Size
	}
	if o.policy != whole.FilesKeep {
		if err := o.unchanged(f, &st, size); err != nil {
			return fd, err
		}
	}
	if writes && o.policy == whole.FilesRefuse && (with == nil || with.Ranks[0] == o.rank) {
		if err := o.lock(fd, f, &st, with); err != nil {
			return fd, err
		}
	}
	if writes && o.policy == whole.FilesRefuse {
		o.noteInPlace(f)
	}
	return fd, o.place(fd, f, false)
}

// sharedFile tells a file that other ranks write to as well, nil if it is this one's alone. The first of them cuts it.
func (o *reopener) sharedFile(f *state.File) *whole.SharedFile {
	if f.Output() {
		for i := range o.shared {
			if slices.Contains(o.shared[i].IDs, whole.FileID(f.Dev, f.Inode)) {
				return &o.shared[i]
			}
		}
	}
	return nil
}

// noteInPlace tells of a file that may have been changed in place, and does not get its content again.
func (o *reopener) noteInPlace(f *state.File) {
	note := f.Path + " is not in the image, as it was too large, or others wrote to it or it could not be read: what the program has changed in it since then stays"
	if f.Size > 0 && f.InPlace() && !slices.Contains(o.notes, note) {
		o.notes = append(o.notes, note)
	}
}

// unchanged checks that the file holds at least what the one held that was open, of so many bytes.
// It need not be that one: files come back from a backup, and snapshots go to
// other machines.
func (o *reopener) unchanged(f *state.File, st *unix.Stat_t, size int64) error {
	if st.Size < size {
		return fileError(f.Path, "put back what it held, or use -files keep to go on with it as it is",
			"it has %d bytes, when it was imaged it had %d", st.Size, size)
	}
	note := f.Path + " is another file than the one that was open, of the same name and not shorter: it is taken for that one"
	if f.Inode != 0 && st.Ino != f.Inode && !slices.Contains(o.notes, note) {
		o.notes = append(o.notes, note)
	}
	return nil
}

// lock takes the file for this process, so that no other restart writes it as
// well, and notes what there is to cut off. with is not nil if other ranks share it.
func (o *reopener) lock(fd int, f *state.File, st *unix.Stat_t, with *whole.SharedFile) error {
	if o.locked[[2]uint64{st.Dev, st.Ino}] {
		return nil // by another descriptor of the same process
	}
	if err := o.take(fd, f.Path, st); err != nil {
		return err
	}
	if with != nil {
		o.common = append(o.common, cut{f.Path, fd, with.Size})
	} else {
		o.cuts = append(o.cuts, cut{f.Path, fd, f.Size})
	}
	return nil
}

// take locks a file, unless this process has.
func (o *reopener) take(fd int, path string, st *unix.Stat_t) error {
	id := [2]uint64{st.Dev, st.Ino}
	if o.locked[id] {
		return nil
	}
	l, err := outfile.Take(fd)
	if err != nil {
		if errors.Is(err, outfile.ErrLocked) {
			return fileError(path, "end that one, or use -files copy to write to a copy, or -files keep to share it",
				"another restart writes to it: %w", err)
		}
		return fileError(path, "use -files copy or -files keep where files cannot be locked", "locking it: %w", err)
	}
	o.locked[id], o.locks = true, append(o.locks, l)
	return nil
}

// unlock gives up the locks.
func (o *reopener) unlock() {
	for _, l := range o.locks {
		l.Give()
	}
	o.locks = nil
}

// place sets flags and offset of a newly opened descriptor.
func (o *reopener) place(fd int, f *state.File, device bool) error {
	if f.Flags&unix.O_PATH != 0 {
		return nil
	}
	if err := setFlags(fd, f.Flags); err != nil {
		return o.failed(f, err)
	}
	if _, err := unix.Seek(fd, f.Offset, io.SeekStart); err != nil && !device {
		return o.failed(f, err)
	}
	return nil
}

// setFlags gives a descriptor the changeable flags that it had.
func setFlags(fd, flags int) error {
	now, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || now&settable == flags&settable {
		return err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, now&^settable|flags&settable)
	return err
}

// virtual says whether the files below path are made by the kernel and have
// neither a size nor an identity.
func virtual(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return true
	}
	return false
}

// copyOf opens the copy of a file and brings it to the length that the file had.
// The ranks of a job that write one file share one copy.
func (o *reopener) copyOf(fd int, f *state.File, st *unix.Stat_t) (int, error) {
	const remedy = "make room or rights for a copy beside it, or use -files keep"
	if st.Size < f.Size {
		return -1, o.unchanged(&state.File{Path: f.Path}, st, f.Size)
	}
	path := outfile.CopyName(f.Path, o.tag)
	made, err := outfile.Copy(f.Path, o.tag, f.Size, fs.FileMode(st.Mode&0o777))
	if made {
		o.copies = append(o.copies, path)
	}
	if err != nil {
		return -1, fileError(f.Path, remedy, "copying it to %s: %w", path, err)
	}
	copied, err := unix.Open(path, openFlags(f.Flags)|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fileError(path, remedy, "%w", err)
	}
	return copied, nil
}

// removeCopies removes the copies that were not written to, because the restart
// failed: none of the ranks that share them has gone on.
func (o *reopener) removeCopies() {
	for _, path := range o.copies {
		os.Remove(path)
	}
	o.copies = nil
}

// cutAll cuts the files of this rank alone.
func (o *reopener) cutAll() error { return o.cut(o.cuts) }

// cutCommon cuts files for all the ranks that share them.
func (o *reopener) cutCommon() error { return o.cut(o.common) }

// cut cuts the files that have grown since they were imaged, each after its
// tail has been kept and is on the disk.
func (o *reopener) cut(cuts []cut) error {
	const remedy = "make room or rights for it, or use -files copy|keep"
	for _, c := range cuts {
		var st unix.Stat_t
		if err := unix.Fstat(c.fd, &st); err != nil {
			return fileError(c.path, remedy, "%w", err)
		}
		if st.Size <= c.to {
			continue
		}
		kept, err := outfile.KeepTail(c.path, c.to, st.Size, o.tag)
		if err != nil {
			return fileError(c.path, remedy, "keeping what it holds beyond %d bytes: %w", c.to, err)
		}
		o.tails = append(o.tails, kept)
		if err := unix.Ftruncate(c.fd, c.to); err != nil {
			return fileError(c.path, remedy, "cutting it to %d bytes (the rest is in %s): %w", c.to, kept, err)
		}
	}
	return nil
}
