package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Files are where the ranks' output goes in place of gorun's own streams: one file for each rank and stream.
//
//	DIR/rank.3.out   standard output of rank 3
//	DIR/rank.3.err   its standard error
//	DIR/.gorun       whose output this is: the job's id, the number of ranks
//
// A new job begins with empty files, as with a shell's ">". A job that goes on appends to its own. The folder
// is locked while gorun writes there: two jobs, or two restarts of one, never write to the same files.
//
// A write that fails loses its data. The caller is told of the first failure, and of each first one
// after a success. The next write tries again: a disk that was full may have room.
type Files struct {
	dir    string
	failed func(error) // is called with the error of a failed write; must not call back

	Tag  bool     // lines begin with their ranks
	mark *os.File // locked
	all  [][3]file
	open []*file // the files that are open, the last used at the end
	most int     // how many may be

	mu      sync.Mutex // for what follows, which both of a Printer's goroutines change
	lost    int
	failing bool
	first   error
}

// file is one of the Files. It is open only while it is among the last used: a job may have more ranks than
// gorun may have files.
type file struct {
	path string
	f    *os.File
	mid  bool // its last line has no end yet

	began int64 // how much of the rank's output was in it when the present life began; guarded by Files.mu
	lost  bool  // some output is missing; guarded by Files.mu
}

// MostOpen is how many files are open at once, by default.
const MostOpen = 64

// The errors of OpenFiles beside those of the system.
var (
	// ErrBusy is wrapped if another gorun writes to the folder.
	ErrBusy = errors.New("another gorun is writing to this folder")
	// ErrOthers is wrapped if the job that is to go on would append to another job's output.
	ErrOthers = errors.New("the folder holds another job's output")
)

const markName = ".gorun"

// OpenFiles makes the folder and the files of a job, or finds them if the job goes on. failed is
// called when output is lost.
func OpenFiles(dir, job string, ranks int, goesOn bool, failed func(error)) (*Files, error) {
	f := &Files{dir: dir, failed: failed, most: MostOpen, all: make([][3]file, ranks)}
	if err := f.begin(job, goesOn); err != nil {
		f.Close()
		return nil, fmt.Errorf("-output-dir %s: %w", dir, err)
	}
	return f, nil
}

func (f *Files) begin(job string, goesOn bool) error {
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return err
	}
	var err error
	if f.mark, err = owned.OpenFile(filepath.Join(f.dir, markName), os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return err
	}
	if err := lockFile(f.mark); err != nil {
		return err
	}
	owner, before := f.readMark()
	if goesOn && owner != "" && owner != job {
		return fmt.Errorf("%w, %s: give another -output-dir, or '' for none", ErrOthers, owner)
	}
	if err := f.writeMark(job, len(f.all)); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !goesOn {
		flags |= os.O_TRUNC
		f.removeFrom(len(f.all), before)
	}
	for rank := range f.all {
		for stream := 1; stream <= 2; stream++ {
			x := &f.all[rank][stream]
			x.path = outputPath(f.dir, rank, stream)
			file, err := owned.OpenFile(x.path, flags, 0o666)
			if err == nil {
				err = file.Close()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// lockFile locks the mark. On a file system without locks it does nothing: another writer cannot be
// detected there.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: give each job a folder of its own", ErrBusy)
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK):
		return nil
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// outputPath is the file of a rank's stream.
func outputPath(dir string, rank, stream int) string {
	return filepath.Join(dir, "rank."+strconv.Itoa(rank)+[...]string{1: ".out", 2: ".err"}[stream])
}

// readMark returns whose output the folder holds, and of how many ranks.
func (f *Files) readMark() (job string, ranks int) {
	b := make([]byte, 256)
	n, _ := f.mark.ReadAt(b, 0)
	fmt.Sscanf(string(b[:n]), "%s %d", &job, &ranks)
	return job, ranks
}

func (f *Files) writeMark(job string, ranks int) error {
	if err := f.mark.Truncate(0); err != nil {
		return err
	}
	_, err := f.mark.WriteAt(fmt.Appendf(nil, "%s %d\n", job, ranks), 0)
	return err
}

// removeFrom removes the files of ranks that the previous job had and this one does not have.
func (f *Files) removeFrom(rank, before int) {
	for ; rank < before; rank++ {
		for stream := 1; stream <= 2; stream++ {
			if err := os.Remove(outputPath(f.dir, rank, stream)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return // they belong to someone else and do no harm
			}
		}
	}
}

// of returns a rank's file, nil if there is none.
func (f *Files) of(rank int32, stream int) *file {
	if f == nil || rank < 0 || int(rank) >= len(f.all) {
		return nil
	}
	return &f.all[rank][stream]
}

// write appends to a file.
func (f *Files) write(x *file, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.ready(x)
	n := 0
	if err == nil {
		n, err = x.f.Write(p)
	}
	if err == nil {
		f.failing = false
		return
	}
	f.lost += len(p) - n
	x.lost = true
	if f.first == nil {
		f.first = err
	}
	if !f.failing {
		f.failing = true
		f.failed(err)
	}
}

// ready opens a file, and closes the one not used for longest if too many are open.
func (f *Files) ready(x *file) (err error) {
	if i := slices.Index(f.open, x); i >= 0 {
		f.open = append(slices.Delete(f.open, i, i+1), x)
		return nil
	}
	if len(f.open) == f.most {
		old := f.open[0]
		f.open = slices.Delete(f.open, 0, 1)
		err = f.shut(old)
	}
	if err == nil {
		x.f, err = owned.OpenFile(x.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	}
	if err == nil {
		f.open = append(f.open, x)
	}
	return err
}

func (f *Files) shut(x *file) error {
	err := x.f.Close()
	x.f = nil
	return err
}

// Close closes the files. Its error says what was lost.
func (f *Files) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.open {
		if err := f.shut(x); err != nil && f.first == nil { // some file systems report a failed write here
			f.first = err
		}
	}
	f.open = nil
	if f.mark != nil {
		f.mark.Close()
	}
	switch {
	case f.lost > 0:
		return fmt.Errorf("-output-dir %s: %d bytes of the ranks' output were lost: %w", f.dir, f.lost, f.first)
	case f.first != nil:
		return fmt.Errorf("-output-dir %s: the ranks' output may not be complete: %w", f.dir, f.first)
	}
	return nil
}
