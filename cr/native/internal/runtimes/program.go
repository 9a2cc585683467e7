package runtimes

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Program is what an image says of the executable.
type Program struct {
	BuildID string // of Go, "" of what is not Go's
	Sum     string // SHA-256, hex
	C       bool   // C is in it, or it is started by a dynamic loader
	TLS     uint64 // size of the thread-local memory of the executable itself
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
	p := Program{Sum: hex.EncodeToString(h.Sum(nil))}
	file, err := elf.NewFile(f)
	if err != nil {
		return p, err
	}
	if p.BuildID, err = goBuildID(file); err != nil {
		return p, err
	}
	for _, g := range file.Progs {
		if g.Type == elf.PT_TLS {
			p.TLS = min(g.Memsz+max(g.Align, 8), 64<<10)
		}
	}
	if p.C = p.BuildID == ""; !p.C {
		p.C, err = holdsC(file)
	}
	return p, err
}

// goBuildID reads the note in which Go's linker leaves the build id. It is
// there in stripped programs, too.
func goBuildID(f *elf.File) (string, error) {
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

// holdsC tells whether there is C in a program of Go's: as a library, or linked in.
func holdsC(f *elf.File) (bool, error) {
	if libs, err := f.DynString(elf.DT_NEEDED); err == nil && len(libs) > 0 {
		return true, nil
	}
	for _, s := range f.Sections {
		if !strings.HasSuffix(s.Name, ".gopclntab") {
			continue
		}
		// The names of all functions written in Go or its assembler; stripping
		// leaves them. This one is in runtime/cgo and nowhere else.
		found, err := contains(s.Open(), []byte("\x00crosscall2\x00"))
		if err != nil {
			return false, fmt.Errorf("table of functions: %w", err)
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

// contains looks for s in what r gives.
func contains(r io.Reader, s []byte) (bool, error) {
	buf := make([]byte, 256<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		p := buf[:kept+n]
		if bytes.Contains(p, s) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buf, p[max(0, len(p)-len(s)+1):])
	}
}
