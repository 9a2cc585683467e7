package agent

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A capture has a name only as long as it is written. An agent that is killed while it writes
// leaves the capture, and later agents sweep it.

const (
	memoryFolder  = "/dev/shm"
	capturePrefix = ".gorun-device-"
)

// roomFor is the folder for so many bytes of a capture.
func roomFor(bytes uint64) string {
	var st unix.Statfs_t
	if err := unix.Statfs(memoryFolder, &st); err == nil && st.Type == unix.TMPFS_MAGIC && st.Bavail*uint64(st.Bsize)/2 >= bytes {
		return memoryFolder
	}
	return os.TempDir()
}

// numbersOf names the scope of process numbers: this boot of this machine, and this process's
// namespace. Other machines and namespaces may see the same folders.
var numbersOf = sync.OnceValue(func() string {
	boot, _ := procfs.BootID()
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := fnv.New32a()
	sum.Write([]byte(boot + "\n" + space)) // as earlier versions did
	return fmt.Sprintf("%08x", sum.Sum32())
})

// captureName begins the name of a capture.
func captureName() string {
	return fmt.Sprintf("%s%s-%d-", capturePrefix, numbersOf(), os.Getpid())
}

// sweepCaptures removes the captures that dead agents have left. If the number of the dead agent
// belongs to another process now, the capture stays until that process has ended.
func sweepCaptures(dirs ...string) {
	for _, dir := range dirs {
		prefix := filepath.Join(dir, capturePrefix+numbersOf()+"-")
		files, _ := filepath.Glob(prefix + "*")
		for _, file := range files {
			number, _, _ := strings.Cut(strings.TrimPrefix(file, prefix), "-")
			pid, err := strconv.Atoi(number)
			var st unix.Stat_t
			if err == nil && unix.Lstat(file, &st) == nil && st.Uid == uint32(os.Getuid()) && unix.Kill(pid, 0) == unix.ESRCH {
				os.Remove(file)
			}
		}
	}
}
