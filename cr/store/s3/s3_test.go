package s3

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/s3test"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// open opens a store on a server, with small parts and a prefix of its own.
func open(t testing.TB, srv *s3test.Server, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{Bucket: s3test.Bucket, Prefix: "p/q", Part: minPart, tries: 3}
	if srv != nil {
		c.Getenv = srv.Getenv
	}
	for _, f := range change {
		f(&c)
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	srv := s3test.New(t)
	var n atomic.Int64
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		own := func(c *Config) { c.Prefix = fmt.Sprint("p/", n.Load()) }
		n.Add(1)
		return storetest.Subject{Store: open(t, srv, own), Readers: []store.Reading{open(t, srv, own)}}
	})
	if srv.Uploads() > 0 {
		t.Errorf("%d uploads are left", srv.Uploads())
	}
}
