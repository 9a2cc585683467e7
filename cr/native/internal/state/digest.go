package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/whole"
)

// mostDigested is the size up to which the content of a mapped file is looked at: libraries, and not data.
const mostDigested = 1 << 30

// ErrNoDigest says that a file is not told by its content: it is too large, or no regular file.
var ErrNoDigest = errors.New("not told by its content")

// digests keeps those that were made: libraries are the same in each snapshot, and in all ranks.
var digests sync.Map // of version: string

// version is a file as it was at a time.
type version struct {
	dev, inode   uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// Digest tells a file by its content (SHA-256, in hexadecimal). Errors: ErrNoDigest; those of reading it.
func Digest(f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Size() > mostDigested {
		return "", ErrNoDigest
	}
	s := st.Sys().(*syscall.Stat_t)
	v := version{s.Dev, s.Ino, s.Size, s.Mtim, s.Ctim}
	if known, ok := digests.Load(v); ok {
		return known.(string), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, mostDigested)); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(h.Sum(nil))
	digests.Store(v, digest)
	return digest, nil
}

// Libraries lists the files that are told by their content, beside the executable of the first process: what all map, and what
// those that descend from the first run.
func (s *State) Libraries() []whole.Library {
	var all []whole.Library
	add := func(path, digest string) {
		if l := (whole.Library{Path: path, Digest: digest}); digest != "" && digest != s.ExeSum && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	for _, m := range s.All() {
		add(m.Exe, m.ExeSum)
		for i := range m.Regions {
			add(m.Regions[i].Path, m.Regions[i].Digest)
		}
	}
	return all
}

// validDigest reports whether a text may be a Digest, or "" for none.
func validDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && (len(b) == 0 || len(b) == sha256.Size)
}
