package offload

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RingName is the name of the memory that a shared file is. Images of whole processes hold what is in it.
const RingName = "gorun-device"

// seals keep every side from making the shared file shorter under the others: to touch what is gone ends a process.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// NewFile makes a shared file of Size bytes. The rank makes it; its agent and the offload process map it, too.
func NewFile() (*os.File, error) {
	fd, err := unix.MemfdCreate(RingName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), RingName)
	if err := errors.Join(unix.Ftruncate(fd, Size), CheckFile(f)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// CheckFile makes sure that a shared file has its size and keeps it. One that was restored from an image of an older
// gorun is sealed here.
func CheckFile(f *os.File) error {
	fd := int(f.Fd())
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err == nil && have&seals != seals {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return fmt.Errorf("the memory that a rank shares with its offload process is not sealed against being cut: %w (build the program with this version of gorun)", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil { // after it was sealed
		return os.NewSyscallError("fstat", err)
	}
	if st.Size != Size {
		return fmt.Errorf("the memory that a rank shares with its offload process has %d bytes instead of %d", st.Size, Size)
	}
	return nil
}
