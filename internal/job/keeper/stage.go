package keeper

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/owned"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// stage is a private folder with programs that this node does not have, each in a folder named by
// its digest. It is made when it is first needed; agents know its name before that. All methods are
// called by the keeper's loop.
//
// A keeper that ends with its lease removes nothing, and its agents end with it. The next keeper on
// the node removes its folder: a folder that is not locked belongs to a keeper that has ended.
type stage struct {
	dir      string
	held     *owned.Folder     // dir, locked; nil: it is not made yet
	fetching map[uint64]*fetch // by number of the request
}

// fetch is a program on its way.
type fetch struct {
	want   wire.Provision
	file   *os.File
	sum    hash.Hash
	offset int64
	to     *wire.Queue
	number uint64
}

const stagePrefix = "gorun-stage-"

func newStage() stage {
	var b [8]byte
	rand.Read(b[:])
	return stage{dir: filepath.Join(os.TempDir(), fmt.Sprintf("%s%x", stagePrefix, b))}
}

// provide looks for what ranks need, and fetches the program if it is not there.
func (k *keeper) provide(m *oob.Msg) {
	var want wire.Provision
	err := json.Unmarshal(m.Data, &want)
	if err == nil && want.Token != "" {
		go func() { answer(k.head, m.A, &want, "", seen(string(want.Token))) }() // the lease must not wait for it
		return
	}
	if err == nil {
		err = checkDir(string(want.Dir))
	}
	path := ""
	if err == nil {
		path, err = k.stage.find(&want)
	}
	if err == nil && path == "" {
		if err = k.stage.fetch(&fetch{want: want, sum: sha256.New(), to: k.head, number: m.A}); err == nil {
			return
		}
	}
	answer(k.head, m.A, &want, path, err)
}

// Clients of file servers may hear of a new file late.
const (
	seenWithin = 3 * time.Second
	seenEvery  = 100 * time.Millisecond
)

// seen waits until a file exists. It opens the file, because a file server's client may answer
// other calls from an old cache.
func seen(path string) error {
	for began := time.Now(); ; time.Sleep(seenEvery) {
		f, err := owned.OpenTrusted(path) // the head names the file and its digest
		if err == nil {
			return f.Close()
		}
		if time.Since(began) > seenWithin {
			return err
		}
	}
}

func answer(to *wire.Queue, number uint64, want *wire.Provision, path string, err error) {
	p := wire.Provided{Program: rawstring.String(path), Imager: supported(want.Imager)}
	if err != nil {
		p = wire.Provided{Err: err.Error()}
	}
	to.Send(oob.Msg{Kind: oob.Provided, To: oob.Head, A: number, Data: wire.JSON(p)})
}

// supported says why a back-end for whole processes does not work here.
func supported(imager string) string {
	if imager == "" {
		return ""
	}
	by, err := whole.Find(imager)
	if err == nil {
		err = by.Supported()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// checkDir says why ranks cannot work in a folder.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = &os.PathError{Op: "chdir", Path: dir, Err: errors.New("not a folder")}
	}
	if err != nil {
		return fmt.Errorf("the working folder is not there: %w; start gorun in a folder that all nodes have", err)
	}
	return nil
}

// find returns the path of a program here: the path at the head if the same file is there, or that
// of a copy; "" if there is none.
func (s *stage) find(want *wire.Provision) (string, error) {
	for _, path := range []string{string(want.Program), s.path(want)} {
		switch same, err := same(path, want); {
		case same:
			return path, nil
		case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
			return "", err
		}
	}
	return "", nil
}

// same reports whether a file is the program.
func same(path string, want *wire.Provision) (bool, error) {
	f, err := owned.OpenTrusted(path) // its digest tells whether it is the one
	if errors.Is(err, owned.ErrKind) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != want.Size || st.Mode()&0o111 == 0 {
		return false, err
	}
	d := sha256.New()
	if _, err := io.Copy(d, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(d.Sum(nil)) == want.Digest, nil
}

// path is where a copy of a program is, if there is one.
func (s *stage) path(want *wire.Provision) string {
	return filepath.Join(s.dir, want.Digest, filepath.Base(string(want.Program)))
}

// hold makes the folder and locks it. A sweep may remove it before it is locked: then it is made again.
func (s *stage) hold() error {
	for s.held == nil {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		d, err := lockFolder(s.dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		s.held = d
	}
	return nil
}

// sweep removes the folders of this user's keepers that could not do so themselves. Files that
// others have put there under such a name are not touched.
func sweep() {
	own, _, _ := owned.Folders(os.TempDir())
	for _, name := range own {
		if !strings.HasPrefix(name, stagePrefix) {
			continue
		}
		dir := filepath.Join(os.TempDir(), name)
		if d, err := lockFolder(dir); err == nil { // else it is in use
			owned.RemoveFolder(dir)
			d.Close()
		}
	}
}

// lockFolder locks a folder of this user's that is there when the lock is held. It does not wait for the lock.
func lockFolder(dir string) (*owned.Folder, error) {
	d, err := owned.Below(filepath.Dir(dir), false, filepath.Base(dir))
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(d.File().Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		var now, locked os.FileInfo
		if now, err = os.Lstat(dir); err == nil {
			if locked, err = d.File().Stat(); err == nil && !os.SameFile(now, locked) {
				err = os.ErrNotExist
			}
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// fetch begins to fetch a program.
func (s *stage) fetch(f *fetch) (err error) {
	if d, err := hex.DecodeString(f.want.Digest); err != nil || len(d) != sha256.Size || f.want.Size < 0 {
		return fmt.Errorf("the digest of the program, %q, is none", f.want.Digest)
	}
	path := s.path(&f.want)
	if err := s.hold(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if f.file, err = os.OpenFile(fmt.Sprintf("%s.%d", path, f.number), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700); err != nil {
		return err
	}
	if s.fetching == nil {
		s.fetching = map[uint64]*fetch{}
	}
	s.fetching[f.number] = f
	f.ask()
	return nil
}

func (f *fetch) ask() {
	f.to.Send(oob.Msg{Kind: oob.Fetch, To: oob.Head, A: f.number, B: uint64(f.offset)})
}

// piece takes a piece of a program.
func (s *stage) piece(m *oob.Msg) {
	f := s.fetching[m.A]
	if f == nil || m.B != uint64(f.offset) {
		return
	}
	err := f.take(m.Data)
	if err == nil && f.offset < f.want.Size {
		f.ask()
		return
	}
	delete(s.fetching, m.A)
	path := s.path(&f.want)
	if err == nil && hex.EncodeToString(f.sum.Sum(nil)) != f.want.Digest {
		err = errors.New("it has changed meanwhile")
	}
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.file.Name(), path)
	}
	if err != nil {
		os.Remove(f.file.Name())
		err = fmt.Errorf("%s is not there and cannot be copied there: %w", f.want.Program, err)
	}
	answer(f.to, m.A, &f.want, path, err)
}

func (f *fetch) take(p []byte) error {
	if len(p) == 0 || f.offset+int64(len(p)) > f.want.Size {
		return errors.New("the head cannot read it any more")
	}
	f.sum.Write(p)
	f.offset += int64(len(p))
	_, err := f.file.Write(p)
	return err
}

// remove removes all copies.
func (s *stage) remove() error {
	for _, f := range s.fetching {
		f.file.Close()
	}
	if s.held == nil {
		return nil // a file of this name may be another user's now
	}
	defer s.held.Close()
	return owned.RemoveFolder(s.dir)
}
