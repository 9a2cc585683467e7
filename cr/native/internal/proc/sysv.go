package proc

import (
	"slices"
	"strconv"
	"strings"
)

// SysV is a line of a file in /proc/sysvipc: shared memory, semaphores or a queue of messages of System V. The
// files show those of the namespace that the process is in that opens them.
type SysV struct {
	Key      int
	ID       int
	Mode     uint32
	UID, GID int // of the owner
	Maker    [2]int

	Size     uint64 // of shared memory, as the next ones
	Creator  int    // the process that made it
	Attached int    // how often it is
}

// ParseSysV parses such a file, by the headings of its columns.
func ParseSysV(p []byte) ([]SysV, error) {
	var all []SysV
	var heads []string
	err := eachLine(p, func(line []byte) error {
		f := strings.Fields(string(line))
		switch {
		case len(f) == 0:
			return nil
		case heads == nil:
			heads = f
			return nil
		}
		broken := len(f) < len(heads)
		number := func(base int, names ...string) int {
			i := slices.IndexFunc(heads, func(h string) bool { return slices.Contains(names, h) })
			if i < 0 || broken {
				return 0
			}
			n, err := strconv.ParseInt(f[i], base, 64)
			broken = err != nil || n < 0 && names[0] != "key"
			return int(n)
		}
		all = append(all, SysV{
			Key: number(10, "key"), ID: number(10, "shmid", "semid", "msqid"), Mode: uint32(number(8, "perms")),
			UID: number(10, "uid"), GID: number(10, "gid"), Maker: [2]int{number(10, "cuid"), number(10, "cgid")},
			Size: uint64(number(10, "size")), Creator: number(10, "cpid"), Attached: number(10, "nattch"),
		})
		if broken {
			return bad("System V objects", line)
		}
		return nil
	})
	return all, err
}
