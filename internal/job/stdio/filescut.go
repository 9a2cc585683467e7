package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// The files of -output-dir are gorun's own. So a life that begins with a snapshot begins with files that hold what the ranks had printed
// at the snapshot, and nothing comes twice. Positions in them count the output of a rank, without tags.

// Begin brings the files of a stream to where a life begins: at says it by rank; nil: they stay as
// they are. It is called when no more output of an earlier life can come (Piece.Do).
func (f *Files) Begin(stream int, at []int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for rank := range f.all {
		to := int64(-1)
		if at != nil {
			to = at[rank]
		}
		x := &f.all[rank][stream]
		if x.lost && to >= 0 {
			errs = append(errs, fmt.Errorf("%s: it is not cut to what it held at the snapshot, as some of the output was lost", x.path))
			to = -1
		}
		errs = append(errs, f.begin1(x, rank, to))
	}
	return errors.Join(errs...)
}

// begin1 is Begin for one file.
func (f *Files) begin1(x *file, rank int, to int64) error {
	if st, err := os.Stat(x.path); err != nil || !st.Mode().IsRegular() {
		return err // the user has put a device there
	}
	file, err := owned.OpenFile(x.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	tag := 0
	if st, err := file.Stat(); err == nil && !f.Tag && st.Size() > 0 { // all bytes count
		x.began = st.Size()
		if to >= 0 {
			x.began = min(to, st.Size())
		}
		var last [1]byte
		if x.began > 0 {
			_, err = file.ReadAt(last[:], x.began-1)
		}
		x.mid = x.began > 0 && last[0] != '\n'
		return errors.Join(err, file.Truncate(x.began))
	}
	if f.Tag {
		tag = len(appendTag(nil, int32(rank)))
	}
	printed, offset, mid, err := position(file, tag, to)
	if err == nil {
		err = file.Truncate(offset)
	}
	x.began, x.mid = printed, mid
	return err
}

// position finds the place in a file at which to bytes were printed, or its end if to is -1. It
// returns the number of bytes, the offset, and whether that is within a line. Each line begins with
// a tag, whose bytes do not count.
func position(file io.ReaderAt, tag int, to int64) (printed, offset int64, mid bool, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, 1<<62), 64<<10)
	for to < 0 || printed < to {
		if tag > 0 && !mid {
			n, err := r.Discard(tag)
			if err == io.EOF {
				return printed, offset, mid, nil
			} else if err != nil {
				return printed, offset, mid, err
			}
			offset += int64(n)
		}
		line, err := r.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return printed, offset, mid, err
		}
		n := int64(len(line))
		ends := err == nil
		if to >= 0 && printed+n > to {
			n, ends = to-printed, false
		}
		printed, offset = printed+n, offset+n
		if len(line) > 0 {
			mid = !ends
		}
		if err == io.EOF {
			break
		}
	}
	return printed, offset, mid, nil
}

// Began is where the output of a rank's stream was when the present life began.
func (f *Files) Began(rank, stream int) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[rank][stream].began
}
