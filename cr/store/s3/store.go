package s3

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Store is a store in a bucket.
type Store struct {
	cfg    Config
	core   *minio.Core
	secure bool // TLS
}

var _ store.Store = (*Store)(nil)

// marker is the object that says that a set was begun. No piece has such a name.
const marker = ".set"

// tagKey is the metadata that names the Writer of an object.
const tagKey = "Gorun-Writer"

// Kind is Kind.
func (s *Store) Kind() string { return Kind }

// Shared is true.
func (s *Store) Shared() bool { return true }

// String is the name of its place.
func (s *Store) String() string { return s.cfg.String() }

// key is the name of an object of a set.
func (s *Store) key(set, name string) string {
	key := set + "/" + name
	if s.cfg.Prefix != "" {
		key = s.cfg.Prefix + "/" + key
	}
	return key
}

func newTag() string {
	var b [16]byte
	cryptorand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Begin makes the set's marker.
func (s *Store) Begin(ctx context.Context, set string) error {
	if err := store.CheckSet(set); err != nil {
		return err
	}
	return s.put(ctx, s.key(set, marker), []byte("a set of gorun\n"), newTag(), "")
}

// put writes an object that has not changed since it had this ETag, or is absent if that is "".
func (s *Store) put(ctx context.Context, key string, p []byte, tag, etag string) error {
	opt := s.condition(etag)
	opt.UserMetadata = map[string]string{tagKey: tag, "x-amz-checksum-crc32c": sumText(p)}
	opt.DisableContentSha256 = true // what is signed is the sum given
	err := s.upload(ctx, p, func(body io.Reader) error {
		_, err := s.core.PutObject(ctx, s.cfg.Bucket, key, body, int64(len(p)), "", s.sha256(p), opt)
		return err
	})
	return s.own(ctx, key, tag, err)
}

// errBroken says that an answer ended too early.
var errBroken = errors.New("the answer broke off")

// condition has a write succeed only if the object is still as it was.
func (s *Store) condition(etag string) (opt minio.PutObjectOptions) {
	if etag == "" {
		opt.SetMatchETagExcept("*")
	} else {
		opt.SetMatchETag(etag)
	}
	return opt
}

// own finds out whether a write that was refused had been carried out before, and its answer lost.
func (s *Store) own(ctx context.Context, key, tag string, err error) error {
	if err == nil {
		return nil
	}
	if info, e := s.core.StatObject(ctx, s.cfg.Bucket, key, minio.StatObjectOptions{}); e == nil && info.UserMetadata[tagKey] == tag {
		return nil
	}
	return s.fail(key, err)
}

// stat looks at an object.
func (s *Store) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	info, err := s.core.StatObject(ctx, s.cfg.Bucket, key, minio.StatObjectOptions{})
	if err == nil && info.Size < 0 {
		err = errors.New("the server does not say how long it is (Content-Length)")
	}
	return info, s.fail(key, err)
}

// Create begins a piece.
func (s *Store) Create(ctx context.Context, set, piece string, _ store.Options) (store.Writer, error) {
	if err := cmp.Or(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return nil, err
	}
	if _, err := s.stat(ctx, s.key(set, marker)); err != nil {
		return nil, err
	}
	key := s.key(set, piece)
	before, err := s.stat(ctx, key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return newWriter(ctx, s, key, before.ETag), nil
}

// Commit has nothing to do.
func (s *Store) Commit(_ context.Context, set string) error { return store.CheckSet(set) }

// Open opens a piece.
func (s *Store) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	if err := cmp.Or(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return nil, err
	}
	key := s.key(set, piece)
	info, err := s.stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return newReader(ctx, s, key, info), nil
}

// Stat looks at a piece.
func (s *Store) Stat(ctx context.Context, set, piece string) (store.Info, error) {
	if err := cmp.Or(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return store.Info{}, err
	}
	info, err := s.stat(ctx, s.key(set, piece))
	if err != nil {
		return store.Info{}, err
	}
	return store.Info{Name: piece, Size: info.Size}, nil
}

// list calls f for each object and, unless all below are wanted, each folder, whose names begin with a prefix.
func (s *Store) list(ctx context.Context, prefix string, all bool, f func(name string, size int64)) error {
	var found []minio.ObjectInfo
	err := s.again(ctx, func() error {
		found = nil
		for o := range s.core.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: all}) {
			if o.Err != nil {
				return o.Err
			}
			found = append(found, o)
		}
		return ctx.Err()
	})
	if err != nil {
		return s.fail(prefix, err)
	}
	for _, o := range found {
		f(strings.TrimPrefix(o.Key, prefix), o.Size)
	}
	return nil
}

// List lists the pieces of a set.
func (s *Store) List(ctx context.Context, set string) ([]store.Info, error) {
	if err := store.CheckSet(set); err != nil {
		return nil, err
	}
	var all []store.Info
	begun := false
	prefix := s.key(set, "")
	err := s.list(ctx, prefix, false, func(name string, size int64) {
		begun = begun || name == marker
		if store.CheckPiece(name) == nil {
			all = append(all, store.Info{Name: name, Size: size})
		}
	})
	if err == nil && !begun {
		err = s.fail(prefix, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Sets lists the sets below a prefix.
func (s *Store) Sets(ctx context.Context, prefix string) ([]string, error) {
	if err := store.CheckSet(prefix); err != nil {
		return nil, err
	}
	var all []string
	err := s.list(ctx, s.key(prefix, ""), false, func(name string, _ int64) {
		name, folder := strings.CutSuffix(name, "/")
		if set := prefix + "/" + name; folder && store.CheckSet(set) == nil {
			all = append(all, set)
		}
	})
	slices.Sort(all)
	return all, err
}

// Remove removes the set's objects and unfinished uploads, and its marker last.
func (s *Store) Remove(ctx context.Context, set string) error {
	if err := store.CheckSet(set); err != nil {
		return err
	}
	prefix := s.key(set, "")
	var pieces, markers []string
	err := s.list(ctx, prefix, true, func(name string, _ int64) {
		if name == marker || strings.HasSuffix(name, "/"+marker) {
			markers = append(markers, prefix+name)
		} else {
			pieces = append(pieces, prefix+name)
		}
	})
	if err == nil {
		err = errors.Join(s.abortBelow(ctx, prefix), s.delete(ctx, pieces))
	}
	if err == nil {
		err = s.delete(ctx, markers)
	}
	return err
}

// delete removes objects.
func (s *Store) delete(ctx context.Context, keys []string) error {
	if len(keys) == 1 {
		return s.fail(keys[0], s.core.RemoveObject(ctx, s.cfg.Bucket, keys[0], minio.RemoveObjectOptions{}))
	}
	return s.again(ctx, func() error { return s.deleteAll(ctx, keys) })
}

func (s *Store) deleteAll(ctx context.Context, keys []string) error {
	all := func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := s.core.RemoveObjectsWithIter(ctx, s.cfg.Bucket, all, minio.RemoveObjectsOptions{})
	if err != nil {
		return s.fail("", err)
	}
	more := 0
	for r := range results {
		switch {
		case r.Err == nil || minio.ToErrorResponse(r.Err).Code == minio.NoSuchKey:
		case err == nil:
			err = s.fail(r.ObjectName, r.Err)
		default:
			more++
		}
	}
	if more > 0 {
		err = fmt.Errorf("%w; and %d more objects", err, more)
	}
	return err
}

// abortBelow gives up the uploads whose writers have died.
func (s *Store) abortBelow(ctx context.Context, prefix string) error {
	return s.again(ctx, func() error {
		listing, cancel := context.WithCancel(ctx)
		defer cancel()
		var errs []error
		for u := range s.core.ListIncompleteUploads(listing, s.cfg.Bucket, prefix, true) {
			if u.Err != nil {
				return s.fail(prefix, u.Err)
			}
			errs = append(errs, s.abort(ctx, u.Key, u.UploadID))
		}
		return errors.Join(errs...)
	})
}

// abort gives up an upload. One that is not there is no error.
func (s *Store) abort(ctx context.Context, key, upload string) error {
	err := s.core.AbortMultipartUpload(ctx, s.cfg.Bucket, key, upload)
	if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("an unfinished upload is left: %w", s.fail(key, err))
	}
	return nil
}

// abortWithin is how long a Writer that was given up has for taking its upload away.
const abortWithin = 10 * time.Second
