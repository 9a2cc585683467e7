package sealed

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// KeySize is the size of a key file in bytes.
const KeySize = 32

// ErrKey says that a key file is missing, or cannot be one, or that something was sealed with another key.
var ErrKey = store.ErrKey

// key is the content of a key file.
type key struct {
	file  string
	bytes [KeySize]byte
	id    [8]byte
}

// NewKey makes a key file, which must not exist yet. Errors: fs.ErrExist.
func NewKey(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var k [KeySize]byte
	rand.Read(k[:]) // it never fails
	_, err = f.Write(k[:])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(file)
	}
	return err
}

// CheckKey says why a file cannot be a key file. Errors: ErrKey.
func CheckKey(file string) error {
	_, err := readKey(file)
	return err
}

// Fingerprint tells which key a file has, without telling the key. Each sealed piece has that of its key. Errors: ErrKey.
func Fingerprint(file string) (string, error) {
	k, err := readKey(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", k.id), nil
}

func readKey(file string) (*key, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w %s: "+format, append([]any{ErrKey, file}, args...)...)
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bad("it is not here, and what was sealed with it cannot be read without it: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, bad("%w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, bad("%w", err)
	}
	sys, _ := st.Sys().(*unix.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return nil, bad("it is not a regular file")
	case st.Mode().Perm()&0o077 != 0:
		return nil, bad("others may read or change it: chmod 600 it")
	case sys != nil && sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return nil, bad("it belongs to another user")
	case st.Size() != KeySize:
		return nil, bad("it has %d bytes, a key has %d: gorun key makes one", st.Size(), KeySize)
	}
	k := &key{file: file}
	if _, err := io.ReadFull(f, k.bytes[:]); err != nil {
		return nil, bad("%w", err)
	}
	k.id = [8]byte(k.derive(nil, "gorun sealed key", 8))
	return k, nil
}

func (k *key) derive(salt []byte, info string, n int) []byte {
	p, err := hkdf.Key(sha256.New, k.bytes[:], salt, info, n)
	if err != nil {
		panic(err) // the lengths are constants
	}
	return p
}
