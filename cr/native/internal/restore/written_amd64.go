package restore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/outfile"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Files that the program changes in place get the content again that they had, like memory. What another one of the name
// holds then is kept beside it.

// written is one, to get its content when the process goes on.
type written struct {
	path   string
	fd     int
	data   []byte
	memory bool
}

const writtenRemedy = "make it accessible as it was, or restart from another snapshot"

// written gives a descriptor of such a file, one for all of the family.
func (d *descriptors) written(path string, inode uint64, mode uint32) (int, error) {
	if fd, ok := d.deleted[inode]; ok {
		return fd, nil
	}
	data, err := d.content(state.KindShared, strconv.FormatUint(inode, 10))
	if err != nil {
		return -1, fileError(path, "restart from another snapshot", "its content: %w", err)
	}
	fd, err := d.openWritten(path, mode, data)
	if err == nil {
		d.deleted[inode] = fd
	}
	return fd, err
}

// makeWritten makes a descriptor of such a file.
func (d *descriptors) makeWritten(f *state.File) (int, error) {
	all, err := d.written(f.Path, f.Inode, f.Mode&0o7777)
	if err != nil {
		return -1, err
	}
	fd, err := d.keep(reopen(all, f.Flags&^unix.O_NOFOLLOW))
	if err != nil {
		return -1, fileError(f.Path, writtenRemedy, "%w", err)
	}
	return fd, d.place(fd, f, false)
}

// openWritten opens such a file, or makes it again.
func (d *descriptors) openWritten(path string, mode uint32, data []byte) (int, error) {
	memory := d.memory[path]
	if d.policy == whole.FilesCopy && !memory {
		path = outfile.CopyName(path, d.tag)
	}
	const how = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK
	open := owned.OpenLinked // only the user may have moved it and left a link
	if d.policy == whole.FilesCopy {
		open = openUnlinked
	}
	fd, err := d.keep(open(path, how, 0))
	if errors.Is(err, fs.ErrNotExist) && d.policy != whole.FilesKeep {
		if fd, err = d.keep(openUnlinked(path, how|unix.O_CREAT|unix.O_EXCL, mode)); err == nil {
			d.copies = append(d.copies, path)
			err = unix.Fchmod(fd, mode)
		}
	}
	if err != nil {
		return -1, fileError(path, writtenRemedy, "it was written to: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, fileError(path, writtenRemedy, "%w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, fileError(path, "put the file back that was there", "it has been replaced by something of another kind")
	}
	if d.policy == whole.FilesKeep {
		return fd, nil
	}
	if d.policy == whole.FilesRefuse {
		if err := d.take(fd, path, &st); err != nil {
			return -1, err
		}
	}
	if d.policy == whole.FilesRefuse || memory { // of that there are no copies
		if d.unmapped[st.Ino], err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil {
			return -1, fileError(path, writtenRemedy, "%w", err)
		}
	}
	d.rewrites = append(d.rewrites, written{path, fd, data, memory})
	return fd, nil
}

// openUnlinked opens a path that is not a link.
func openUnlinked(path string, how int, mode uint32) (int, error) {
	return unix.Open(path, how|unix.O_NOFOLLOW, mode)
}

// reaches refuses a file that stays as it is and has become shorter: what is mapped of it is to be there.
func (d *descriptors) reaches(fd int, r *state.Region) error {
	if d.policy != whole.FilesKeep {
		return nil
	}
	var st unix.Stat_t
	data, err := d.content(state.KindShared, strconv.FormatUint(r.Inode, 10))
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Size < int64(len(data)) {
		err = fileError(r.Path, "put back what it held", "it has %d bytes, and is mapped with %d", st.Size, len(data))
	}
	return err
}

// untilUnmapped is how long a process may have a file mapped that was killed a moment ago, such as the copy of one that was being imaged.
const untilUnmapped = 2 * time.Second

// refuseMapped refuses files that a process has mapped, as far as this user can see: it would find other content there all of a sudden.
func (d *descriptors) refuseMapped() error {
	for begin := time.Now(); len(d.unmapped) > 0; time.Sleep(10 * time.Millisecond) {
		path, pid, err := mapper(d.unmapped)
		if err != nil || pid == 0 {
			return err
		}
		if time.Since(begin) > untilUnmapped {
			remedy := "end that one, or use -files copy or -files keep"
			if d.memory[path] {
				remedy = "end that one, or use -files keep"
			}
			return fileError(path, remedy, "process %d has it mapped", pid)
		}
	}
	return nil
}

// restoredHere tells a process that does not run yet, such as another rank of this restart, which has the file mapped to read it.
func restoredHere(pid int) bool {
	s, err := proc.Parsed(pid, "status", proc.ParseStatus)
	return err == nil && trace.IsOurThread(s.Tracer)
}

// mapper finds a process that has one of the files mapped, 0 if there is none. It looks at all of them at once: there may be thousands.
func mapper(files map[uint64]string) (path string, pid int, err error) {
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return "", 0, err
	}
	for _, pid := range pids {
		maps, _ := proc.Parsed(pid, "maps", proc.ParseMaps) // of another user, or just ending
		for i := range maps {
			if m := &maps[i]; m.Shared && m.Path != "" && files[m.Inode] == m.Path && !restoredHere(pid) {
				return m.Path, pid, nil
			}
		}
	}
	return "", 0, nil
}

// journals is what databases (SQLite) call the files by which whoever comes next brings a file to an earlier or later state.
var journals = []string{"-journal", "-wal"}

// journalMarks are the beginnings of such files. Others may have such a name by chance, and one without it is of no effect.
var journalMarks = []string{"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "\x37\x7f\x06\x82", "\x37\x7f\x06\x83"}

// isJournal tells one that has an effect.
func isJournal(path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	var begin [8]byte
	n, err := io.ReadFull(file, begin[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return slices.ContainsFunc(journalMarks, func(mark string) bool { return strings.HasPrefix(string(begin[:n]), mark) }), err
}

// rewriteAll gives all files their content again. Journals that were not open at the checkpoint are of what came after it, and
// would spoil the files: they are put aside. Those that were open are the program's, whether they have their content again or not.
func (d *descriptors) rewriteAll() error {
	for i := range d.rewrites {
		w := &d.rewrites[i]
		kept, err := w.rewrite(d.tag)
		if kept != "" {
			d.tails = append(d.tails, kept)
		}
		for _, end := range journals {
			if journal := w.path + end; err == nil && !d.named[journal] && d.policy == whole.FilesRefuse {
				err = d.putAside(journal)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putAside keeps a journal by another name, if it is there.
func (d *descriptors) putAside(path string) error {
	const remedy = "make room or rights for it, or use -files copy|keep"
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return nil
	}
	is, kept := false, ""
	if err == nil {
		is, err = isJournal(path)
	}
	if err == nil && !is {
		return nil
	}
	if err == nil {
		kept, err = outfile.KeepTail(path, 0, st.Size(), d.tag)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fileError(path, remedy, "putting it aside, as it is younger than the checkpoint: %w", err)
	}
	d.tails = append(d.tails, kept)
	return nil
}

// rewrite gives a file its content again. What it holds else is kept first; the name of that is returned.
func (w *written) rewrite(tag string) (kept string, err error) {
	const remedy = "make room or rights for it, or use -files copy|keep"
	var st unix.Stat_t
	same := int64(0)
	if err = unix.Fstat(w.fd, &st); err == nil {
		same, err = w.begins()
	}
	if err != nil {
		return "", fileError(w.path, remedy, "%w", err)
	}
	if same == st.Size && same == int64(len(w.data)) {
		return "", nil
	}
	if same < st.Size && !w.memory && !state.Statistics(w.path) {
		if kept, err = outfile.KeepTail(w.path, same, st.Size, tag); err != nil {
			return "", fileError(w.path, remedy, "keeping what it holds: %w", err)
		}
	}
	if err = unix.Ftruncate(w.fd, int64(len(w.data))); err == nil {
		err = writeAll(w.fd, w.data)
	}
	if err != nil {
		err = fileError(w.path, remedy, "writing to it (what it held is in %s): %w", kept, err)
	}
	return kept, err
}

// begins gives the length of the content if the file begins with that, and 0 if it does not. Beyond that it may have grown to any length.
func (w *written) begins() (int64, error) {
	now := make([]byte, len(w.data))
	n, err := io.ReadFull(io.NewSectionReader(readerAt(w.fd), 0, int64(len(now))), now)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err != nil || n < len(now) || !bytes.Equal(now, w.data) {
		return 0, err
	}
	return int64(n), nil
}

// readerAt reads a descriptor.
type readerAt int

func (fd readerAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := unix.Pread(int(fd), p, off)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}
