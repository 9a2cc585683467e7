package proc

import (
	"bytes"
	"strconv"
	"strings"
)

// Mount is a place where a file system can be seen.
type Mount struct {
	Device uint32 // as in Inode
	Point  string
}

// ParseMounts parses /proc/PID/mountinfo:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func ParseMounts(p []byte) ([]Mount, error) {
	var all []Mount
	err := eachLine(p, func(line []byte) error {
		f := bytes.Fields(line)
		if len(f) < 5 {
			return bad("mount", line)
		}
		major, minor, _ := strings.Cut(string(f[2]), ":")
		a, err1 := strconv.ParseUint(major, 10, 12)
		b, err2 := strconv.ParseUint(minor, 10, 20)
		if err1 != nil || err2 != nil {
			return bad("mount", line)
		}
		all = append(all, Mount{uint32(a<<20 | b), unescape(string(f[4]))})
		return nil
	})
	return all, err
}

// unescape gives a name in which blanks and the like are written as \040.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
