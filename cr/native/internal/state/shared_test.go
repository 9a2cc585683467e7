package state

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// output is a file that a rank has open for writing.
func output(path string, dev, inode uint64, born, size int64, flags int) File {
	return File{FD: 5, Same: 5, Kind: FileRegular, Path: path, Dev: dev, Inode: inode, Born: born, Size: size, Mode: unix.S_IFREG | 0o600, Flags: flags}
}

func statesOf(files ...[]File) (all []*State) {
	for _, f := range files {
		all = append(all, &State{Files: f})
	}
	return all
}

func TestSharedFiles(t *testing.T) {
	const w, a = unix.O_WRONLY, unix.O_WRONLY | unix.O_APPEND
	whole := output("/d/x", 1, 7, 9, 100, unix.O_RDWR)
	whole.Written = true
	for _, c := range []struct {
		name   string
		states []*State
		ranks  []int // of the only file that is shared
		size   int64
		refuse string // what the error says
	}{
		{"each its own", statesOf([]File{output("/d/x", 1, 7, 9, 100, w)}, []File{output("/d/y", 1, 8, 9, 100, w)}), nil, 0, ""},
		{"at places: the greatest length", statesOf([]File{output("/d/x", 1, 7, 9, 100, w)}, nil, []File{output("/d/x", 1, 7, 9, 150, w)}), []int{0, 2}, 150, ""},
		{"by two names", statesOf([]File{output("/d/x", 1, 7, 9, 100, w)}, []File{output("/d/link", 1, 7, 9, 100, w)}), []int{0, 1}, 100, ""},
		{"on two nodes", statesOf([]File{output("/d/x", 1, 7, 9, 100, w)}, []File{output("/d/x", 2, 7, 9, 100, w)}), []int{0, 1}, 100, ""},
		{"others of two nodes, alike in all but their age", statesOf([]File{output("/tmp/x", 1, 7, 9, 100, w)}, []File{output("/tmp/x", 1, 7, 8, 100, w)}), nil, 0, ""},
		{"read by one", statesOf([]File{output("/d/x", 1, 7, 9, 100, w)}, []File{output("/d/x", 1, 7, 9, 100, unix.O_RDONLY)}), nil, 0, ""},
		{"appended to while nobody wrote", statesOf([]File{output("/d/x", 1, 7, 9, 100, a)}, []File{output("/d/x", 1, 7, 9, 100, a)}), []int{0, 1}, 100, ""},
		{"appended to in between", statesOf([]File{output("/d/x", 1, 7, 9, 100, a)}, []File{output("/d/x", 1, 7, 9, 120, a)}), []int{0, 1}, 120, "/d/x is appended to by several ranks (ranks 0-1) and has grown"},
		{"in one image whole", statesOf([]File{whole}, []File{output("/d/x", 1, 7, 9, 100, w)}), []int{0, 1}, 100, "rank 0 had it alone"},
	} {
		shared, err := SharedFiles(c.states)
		if c.refuse == "" && err != nil || c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse) || !strings.Contains(err.Error(), "-files copy")) {
			t.Errorf("%s: %v", c.name, err)
		}
		switch {
		case c.ranks == nil && len(shared) > 0:
			t.Errorf("%s: shared are %v", c.name, shared)
		case c.ranks != nil && (len(shared) != 1 || !slices.Equal(shared[0].Ranks, c.ranks) || shared[0].Size != c.size):
			t.Errorf("%s: shared are %v", c.name, shared)
		}
	}
}
