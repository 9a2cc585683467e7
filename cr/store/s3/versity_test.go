package s3

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/s3test"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// TestVersity runs against a server in use: what the tests' own one says, it says, too.
func TestVersity(t *testing.T) {
	var srv *s3test.Server // none of our own
	getenv := s3test.Versity(t)
	var n atomic.Int64
	own := func(c *Config) { c.Getenv, c.Prefix = getenv, fmt.Sprint("p/", n.Add(1)) }
	t.Run("Store", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB) storetest.Subject {
			s := open(t, srv, own)
			return storetest.Subject{Store: s, Readers: []store.Reading{open(t, srv, func(c *Config) { c.Getenv, c.Prefix = getenv, s.cfg.Prefix })}}
		})
	})
	t.Run("RoundTrip", func(t *testing.T) { roundTrip(t, open(t, srv, own)) })
	t.Run("TwoWriters", func(t *testing.T) { twoWriters(t, open(t, srv, own)) })
	t.Run("LeftUploads", func(t *testing.T) {
		s := open(t, srv, own)
		if err := s.Begin(t.Context(), "j/1"); err != nil {
			t.Fatal(err)
		}
		w := newWriter(t.Context(), s, s.key("j/1", "p"), "")
		if _, err := w.put(0, make([]byte, minPart)); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
		for u := range s.core.ListIncompleteUploads(t.Context(), s3test.Bucket, s.cfg.Prefix, true) {
			t.Errorf("left: %+v", u)
		}
	})
	t.Run("Sum", func(t *testing.T) {
		s := open(t, srv, own)
		opt := s.condition("")
		opt.UserMetadata, opt.DisableContentSha256 = map[string]string{"x-amz-checksum-crc32c": sumText([]byte("other"))}, true
		p := []byte("damaged on its way")
		_, err := s.core.PutObject(t.Context(), s3test.Bucket, s.key("s", "p"), bytes.NewReader(p), int64(len(p)), "", s.sha256(p), opt)
		if !passing(err) {
			t.Errorf("a wrong CRC32C: %v", err)
		}
	})
}
