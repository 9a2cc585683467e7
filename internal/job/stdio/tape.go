package stdio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// tape holds the part of a stream that may have to be read again. Data beyond a limit of memory
// goes to a file without a name. The system frees the forgotten part of that file. A tape is not
// for concurrent use.
type tape struct {
	from, split, end int64 // of the stream: file holds up to split, mem the rest
	file             *os.File
	mem              []byte
	err              error // why no more goes to the file
}

// tapeMemory is how much is in memory before it goes to the file.
const tapeMemory = 1 << 20

// write appends data. The data is on the tape even after an error. The error says, once, that
// from now on everything stays in memory.
func (t *tape) write(data []byte) error {
	t.mem = append(t.mem, data...)
	t.end += int64(len(data))
	if len(t.mem) < tapeMemory || t.err != nil {
		return nil
	}
	t.err = t.spill()
	return t.err
}

func (t *tape) spill() error {
	if t.file == nil {
		f, err := os.CreateTemp("", "gorun-tape-")
		if err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			f.Close()
			return err
		}
		t.file = f
	}
	if _, err := t.file.WriteAt(t.mem, t.split); err != nil {
		return err
	}
	t.split, t.mem = t.end, t.mem[:0]
	return nil
}

// read reads held data from off on.
func (t *tape) read(p []byte, off int64) (int, error) {
	switch {
	case off < t.from || off > t.end:
		return 0, fmt.Errorf("bytes %d to %d of the stream are kept, not %d", t.from, t.end, off)
	case off >= t.split:
		return copy(p, t.mem[off-t.split:]), nil
	}
	return t.file.ReadAt(p[:min(int64(len(p)), t.split-off)], off)
}

// forget releases the data before off.
func (t *tape) forget(off int64) {
	off = min(off, t.end)
	if off <= t.from {
		return
	}
	if off > t.split {
		t.mem = t.mem[:copy(t.mem, t.mem[off-t.split:])]
		t.split = off
	}
	if t.file != nil {
		// A file system that cannot do this keeps it until the end.
		_ = unix.Fallocate(int(t.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, off)
	}
	t.from = off
}

// close gives up the file. What is on the tape is lost.
func (t *tape) close() {
	if t.file != nil {
		t.file.Close()
	}
}
