package capture

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// mostShared is the size up to which files are told by their content that are mapped to be shared: tables, such as that of character sets, and not data.
const mostShared = 1 << 20

// digest is that of the file of a mapping, "" where there is none: then a restart insists on the same file.
func digest(m *proc.Mapping, exe string) string {
	if m.Anonymous() || m.Path == exe {
		return ""
	}
	f, err := os.OpenFile(m.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Ino != m.Inode || m.Shared && st.Size > mostShared {
		return "" // another one has taken the name
	}
	d, err := state.Digest(f)
	if err != nil {
		return ""
	}
	return d
}
