package guest

import (
	"fmt"
	"io"
	"path"
)

// archive is an initramfs: a cpio archive of the "new" format, as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w    io.Writer
	n    int
	off  int
	made map[string]bool // folders
	err  error
}

const (
	modeFolder = 0o040755
	modeFile   = 0o100755
)

// folder adds a folder, and those above it.
func (a *archive) folder(name string) {
	if name == "/" || name == "." || a.made[name] {
		return
	}
	a.folder(path.Dir(name))
	a.made[name] = true
	a.entry(name, modeFolder, nil)
}

// add adds a file.
func (a *archive) add(name string, content []byte) {
	a.folder(path.Dir(name))
	a.entry(name, modeFile, content)
}

func (a *archive) end() { a.entry("/TRAILER!!!", 0, nil) }

func (a *archive) entry(name string, mode int, content []byte) {
	a.n++
	name = name[1:] + "\x00"
	a.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s",
		a.n, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0, name))
	a.align()
	a.write(content)
	a.align()
}

func (a *archive) align() { a.write(make([]byte, -a.off&3)) }

func (a *archive) write(p []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(p)
	}
	a.off += len(p)
}
