package goruntime

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Program is what an image says of the executable.
type Program struct {
	BuildID string // of Go
	Sum     string // SHA-256, hex
}

// programs keeps what was found out: all ranks of a node run the same file, and
// reading it takes longer than imaging a small one.
var programs sync.Map // programKey -> func() (Program, error)

type programKey struct {
	dev, inode   uint64
	size         int64
	mtime, ctime unix.Timespec
}

// ReadProgram describes the executable at path, which may be /proc/PID/exe.
func ReadProgram(path string) (Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return Program{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return Program{}, err
	}
	key := programKey{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
	once, _ := programs.LoadOrStore(key, sync.OnceValues(func() (Program, error) { return describeProgram(f) }))
	p, err := once.(func() (Program, error))()
	f.Close()
	if err != nil {
		programs.Delete(key)
	}
	return p, err
}

func describeProgram(f *os.File) (Program, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return Program{}, err
	}
	id, err := goBuildID(f)
	return Program{BuildID: id, Sum: hex.EncodeToString(h.Sum(nil))}, err
}

// goBuildID reads the note in which Go's linker leaves the build id. It is
// there in stripped programs, too.
func goBuildID(r io.ReaderAt) (string, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return "", err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return "", fmt.Errorf("notes of the executable: %w", err)
		}
		if id := findNote(notes, "Go\x00\x00", 4); id != nil {
			return string(id), nil
		}
	}
	return "", nil
}

// findNote finds the first ELF note of a name and type.
func findNote(p []byte, name string, typ uint32) []byte {
	align := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(p) >= 12 {
		nameLen, size, t := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint32(p[8:])
		p = p[12:]
		if align(nameLen)+uint64(size) > uint64(len(p)) {
			return nil
		}
		data := p[align(nameLen):]
		if t == typ && bytes.Equal(p[:nameLen], []byte(name)) {
			return data[:size]
		}
		p = data[min(align(size), uint64(len(data))):]
	}
	return nil
}
