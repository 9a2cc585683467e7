package sealed

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// Suffix follows the name of the kind that is sealed.
const Suffix = "+sealed"

// Store seals what another keeps.
type Store struct {
	store.Store // what is sealed
	key         *key
}

// Wrap returns a store whose pieces lie in st, sealed with the key of a file. Errors: ErrKey.
func Wrap(st store.Store, keyFile string) (*Store, error) {
	k, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	return &Store{Store: st, key: k}, nil
}

func newSalt() (s [saltSize]byte) {
	rand.Read(s[:]) // it never fails
	return s
}

// Kind is that of the store that is sealed, and Suffix.
func (s *Store) Kind() string { return s.Store.Kind() + Suffix }

// Create begins a piece.
func (s *Store) Create(ctx context.Context, set, piece string, opt store.Options) (store.Writer, error) {
	return s.create(ctx, set, piece, opt, newSalt())
}

func (s *Store) create(ctx context.Context, set, piece string, opt store.Options, salt [saltSize]byte) (store.Writer, error) {
	opt.NoDirect = true // blocks with their tags are no pages
	if opt.Size > 0 {
		opt.Size = sealedSize(opt.Size)
	}
	b, err := newBox(s.key, newHead(s.key, salt), piece)
	if err != nil {
		return nil, err
	}
	w, err := s.Store.Create(ctx, set, piece, opt)
	if err != nil {
		return nil, err
	}
	return newWriter(w, b)
}

// Open opens a piece.
func (s *Store) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	r, err := s.Store.Open(ctx, set, piece)
	if err != nil {
		return nil, err
	}
	return s.Reader(r, set, piece)
}

// Reader reads a piece that is open, and closes it. After an error it is closed.
func (s *Store) Reader(r store.Reader, set, piece string) (store.Reader, error) {
	u, err := newReader(r, s.key, piece)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s/%s: %w", set, piece, err)
	}
	return u, nil
}

// copies is what a store has that may have several copies of a piece: it opens the first of which proved makes a reader.
type copies interface {
	OpenProved(ctx context.Context, set, piece string, proved func(store.Reader) (store.Reader, error)) (store.Reader, error)
}

// OpenGood opens a copy of an image that is good: whoever has it has not the key, so all of it is read here.
func (s *Store) OpenGood(ctx context.Context, set, piece, digest string) (store.Reader, error) {
	proved := func(r store.Reader) (store.Reader, error) {
		u, err := s.Reader(r, set, piece)
		if err == nil {
			err = image.Prove(u, u.Size(), set+"/"+piece, digest)
		}
		if err != nil {
			r.Close()
			return nil, err
		}
		return u, nil
	}
	if c, ok := s.Store.(copies); ok {
		return c.OpenProved(ctx, set, piece, proved)
	}
	r, err := s.Store.Open(ctx, set, piece)
	if err != nil {
		return nil, err
	}
	return proved(r)
}

// Stat tells the size of a piece as its reader sees it.
func (s *Store) Stat(ctx context.Context, set, piece string) (store.Info, error) {
	info, err := s.Store.Stat(ctx, set, piece)
	info.Size = openedSize(info.Size)
	return info, err
}

// List lists pieces with the sizes that their readers see.
func (s *Store) List(ctx context.Context, set string) ([]store.Info, error) {
	all, err := s.Store.List(ctx, set)
	for i := range all {
		all[i].Size = openedSize(all[i].Size)
	}
	return all, err
}

// Place names a place of sealed pieces for a catalogue: the kind, and the key file before the folder.
func Place(keyFile, kind, folder string) (sealedKind, sealedFolder string) {
	return kind + Suffix, escaper.Replace(keyFile) + ":" + folder
}

// Split is the inverse of Place. It is false for a place that is not sealed.
func Split(sealedKind, sealedFolder string) (keyFile, kind, folder string, ok bool) {
	if kind, ok = strings.CutSuffix(sealedKind, Suffix); !ok {
		return "", sealedKind, sealedFolder, false
	}
	keyFile, folder, _ = strings.Cut(sealedFolder, ":")
	return unescaper.Replace(keyFile), kind, folder, true
}

var (
	escaper   = strings.NewReplacer("%", "%25", ":", "%3A")
	unescaper = strings.NewReplacer("%25", "%", "%3A", ":")
)
