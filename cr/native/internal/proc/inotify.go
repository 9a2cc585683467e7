package proc

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Inotify is one file that an inotify descriptor watches.
type Inotify struct {
	Number int    // by which its events name it
	Mask   uint32 // as for inotify_add_watch
	File   Inode
}

// Inode names a file as the kernel does there.
type Inode struct {
	Number uint64
	Device uint32 // as mountinfo has it, not as stat does: the minor number in the low 20 bits
	Kind   int    // of the handle
	Handle string // its bytes, as for open_by_handle_at; none where the file system has no handles
}

// Numbers gives the two numbers of the device.
func (n Inode) Numbers() (major, minor uint32) { return n.Device >> 20, n.Device & (1<<20 - 1) }

// parseInotify parses
//
//	inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d
func parseInotify(line string) (Inotify, error) {
	var w Inotify
	seen := map[string]bool{}
	for field := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(field, ":")
		var n uint64
		var err error
		switch key {
		case "wd":
			n, err = strconv.ParseUint(value, 16, 31)
			w.Number = int(n)
		case "ino":
			w.File.Number, err = strconv.ParseUint(value, 16, 64)
		case "sdev":
			n, err = strconv.ParseUint(value, 16, 32)
			w.File.Device = uint32(n)
		case "mask":
			n, err = strconv.ParseUint(value, 16, 32)
			w.Mask = uint32(n)
		case "fhandle-type":
			n, err = strconv.ParseUint(value, 16, 31)
			w.File.Kind = int(n)
		case "f_handle":
			var p []byte
			p, err = hex.DecodeString(value)
			w.File.Handle = string(p)
		default:
			continue
		}
		if err != nil {
			return w, errProc
		}
		seen[key] = true
	}
	for _, key := range []string{"wd", "ino", "sdev", "mask"} {
		if !seen[key] {
			return w, errProc
		}
	}
	return w, nil
}
