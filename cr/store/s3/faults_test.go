package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/s3test"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

type serve = func(http.ResponseWriter, *http.Request)

// lost serves a request and breaks the connection in place of an answer.
func lost(w http.ResponseWriter, r *http.Request, serve serve) {
	serve(discard{http.Header{}}, r)
	panic(http.ErrAbortHandler)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// cut answers half.
func cut(w http.ResponseWriter, r *http.Request, serve serve) {
	serve(&half{ResponseWriter: w}, r)
	panic(http.ErrAbortHandler)
}

type half struct {
	http.ResponseWriter
	sent bool
}

func (h *half) Write(p []byte) (int, error) {
	if !h.sent {
		h.sent = true
		h.ResponseWriter.Write(p[:len(p)/2])
		http.NewResponseController(h.ResponseWriter).Flush()
	}
	return len(p), nil
}

// busy says that the server has too much to do.
func busy(w http.ResponseWriter, r *http.Request, _ serve) {
	io.Copy(io.Discard, r.Body)
	s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown", "later")
}

// broken fails.
func broken(w http.ResponseWriter, r *http.Request, _ serve) {
	s3test.Refuse(w, http.StatusInternalServerError, "InternalError", "it is broken")
}

// halfRead takes half of what is sent and breaks the connection.
func halfRead(w http.ResponseWriter, r *http.Request, _ serve) {
	io.CopyN(io.Discard, r.Body, r.ContentLength/2)
	panic(http.ErrAbortHandler)
}

// silent never answers.
func silent(w http.ResponseWriter, r *http.Request, _ serve) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// flipped changes a bit of what is sent.
func flipped(w http.ResponseWriter, r *http.Request, serve serve) {
	p, _ := io.ReadAll(r.Body)
	if len(p) > 0 {
		p[len(p)/2] ^= 8
	}
	r.Body = io.NopCloser(bytes.NewReader(p))
	serve(w, r)
}

// TestFaults breaks the first request of each kind in each way. The piece is written and read all the same.
func TestFaults(t *testing.T) {
	faults := map[string]func(http.ResponseWriter, *http.Request, serve){
		"lost": lost, "cut": cut, "busy": busy, "broken": broken, "half read": halfRead, "silent": silent, "flipped": flipped,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s3test.New(t)
			s := open(t, srv, func(c *Config) {
				c.tries = 4
				if name == "silent" {
					c.idle, c.tries = 2*time.Second, 20 // a slow machine is silent as well
				}
			})
			seen := map[string]bool{}
			var was atomic.Int64
			turn := make(chan struct{}, 1)
			srv.Break(func(w http.ResponseWriter, r *http.Request, serve serve) {
				kind := r.Method
				for _, q := range []string{"uploads", "uploadId", "delete", "partNumber"} {
					if r.URL.Query().Has(q) {
						kind += " " + q
					}
				}
				turn <- struct{}{}
				first := !seen[kind]
				seen[kind] = true
				<-turn
				if first && (name != "flipped" || r.Method == "PUT") {
					was.Add(1)
					fault(w, r, serve)
					return
				}
				serve(w, r)
			})
			roundTrip(t, s)
			if name != "flipped" && was.Load() < 6 || was.Load() < 2 {
				t.Errorf("only %d requests failed: %v", was.Load(), seen)
			}
			if srv.Uploads() > 0 || len(srv.Keys()) > 0 {
				t.Errorf("left: %q and %d uploads", srv.Keys(), srv.Uploads())
			}
		})
	}
}

// roundTrip writes a long piece and a short one, reads them, and removes them.
func roundTrip(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	if err := s.Begin(ctx, "j/1"); err != nil {
		t.Fatal(err)
	}
	long, short := storetest.Data(2*minPart+1000, 1), storetest.Data(1000, 2)
	storetest.Put(t, s, "j/1", "long", long)
	storetest.Put(t, s, "j/1", "short", short)
	for name, want := range map[string][]byte{"long": long, "short": short} {
		if got, err := storetest.Get(t, s, "j/1", name); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if all, err := s.List(ctx, "j/1"); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Remove(ctx, "j"); err != nil {
		t.Error(err)
	}
}

// TestGivesUp: what does not pass ends with an error that names the object and, where there is one, the remedy.
func TestGivesUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request, serve)
		conf  func(*Config)
		is    error
		says  string
	}{
		{"broken", broken, nil, nil, "it is broken"},
		{"no answer", nil, func(c *Config) { c.Endpoint = "http://127.0.0.1:1" }, store.ErrUnreachable, "http://127.0.0.1:1"},
		{"secret", nil, func(c *Config) {
			env := c.Getenv
			c.Getenv = func(name string) string {
				if name == "AWS_SECRET_ACCESS_KEY" {
					return "another"
				}
				return env(name)
			}
		}, fs.ErrPermission, "AWS_SECRET_ACCESS_KEY"},
		{"bucket", nil, func(c *Config) { c.Bucket = "another" }, nil, "make the bucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := s3test.New(t)
			s := open(t, srv, func(conf *Config) {
				conf.tries = 2
				if c.conf != nil {
					c.conf(conf)
				}
			})
			if c.fault != nil {
				srv.Break(c.fault)
			}
			err := s.Begin(t.Context(), "j/1")
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/p/q/j/1/.set") {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), s3test.Secret) {
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

// TestEnds: a context that ends, ends what is under way on a server that does not answer.
func TestEnds(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, s, "s", "p", storetest.Data(100, 1))
	r, err := s.Open(t.Context(), "s", "p")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool, 100)
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve serve) {
		asked <- true
		silent(w, r, serve)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := s.Stat(ctx, "s", "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("stat: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := r.ReadAt(make([]byte, 10), 0)
		done <- err
	}()
	<-asked
	r.Close()
	if err := <-done; err == nil {
		t.Error("read from a server that does not answer")
	}
}

// TestNoLength: a server that does not say how long an object is, is an error, and no piece of a length below 0.
func TestNoLength(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, s, "s", "p", storetest.Data(100, 1))
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve serve) {
		if r.Method == http.MethodHead {
			w = noLength{w}
		}
		serve(w, r)
	})
	for what, f := range map[string]func() error{
		"stat": func() error { _, err := s.Stat(t.Context(), "s", "p"); return err },
		"open": func() error { _, err := s.Open(t.Context(), "s", "p"); return err },
		"image": func() error {
			_, err := image.Piece{Context: t.Context(), Store: s, Set: "s", Name: "p"}.Open()
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "does not say how long it is") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type noLength struct{ http.ResponseWriter }

func (w noLength) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}

// TestTwoWriters: of two writers of one piece at once, the first is committed, and the other is told.
func TestTwoWriters(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	twoWriters(t, s)
	if srv.Uploads() > 0 {
		t.Errorf("%d uploads are left", srv.Uploads())
	}
}

// twoWriters has two write one piece, short or long, that is there or not.
func twoWriters(t *testing.T, s *Store) {
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1000, minPart + 1000} {
		for i, there := range []bool{false, true} {
			piece := fmt.Sprintf("p-%d-%d", size, i)
			if there {
				storetest.Put(t, s, "s", piece, []byte("before"))
			}
			var ws [2]store.Writer
			for i := range ws {
				w, err := s.Create(t.Context(), "s", piece, store.Options{})
				if err == nil {
					_, err = w.WriteAt(storetest.Data(size, byte(i)), 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				ws[i] = w
			}
			if err := ws[1].Commit(int64(size)); err != nil {
				t.Fatal(err)
			}
			if err := ws[0].Commit(int64(size)); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s, there: %v: the second: %v", piece, there, err)
			}
			if got, err := storetest.Get(t, s, "s", piece); err != nil || !bytes.Equal(got, storetest.Data(size, 1)) {
				t.Errorf("%s: %d bytes, %v", piece, len(got), err)
			}
		}
	}
}

// TestLostPart: an upload that has lost a part is no piece.
func TestLostPart(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "s", "p", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(storetest.Data(3*minPart, 1), 0); err != nil {
		t.Fatal(err)
	}
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve serve) {
		if r.Method == "POST" && r.URL.Query().Has("uploadId") {
			srv.LosePart(2)
		}
		serve(w, r)
	})
	if err := w.Commit(3 * minPart); err == nil || !strings.Contains(err.Error(), "/s/p") {
		t.Errorf("committed with a part lost: %v", err)
	}
	if _, err := s.Stat(t.Context(), "s", "p"); !errors.Is(err, fs.ErrNotExist) || srv.Uploads() > 0 {
		t.Errorf("%v, %d uploads are left", err, srv.Uploads())
	}
}

// TestLeftUploads: what a writer that was killed has left goes with its set, and a Remove that was interrupted is found.
func TestLeftUploads(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	for _, set := range []string{"j/1", "j/2"} {
		if err := s.Begin(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		w, err := s.Create(t.Context(), set, "p", store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteAt(storetest.Data(2*minPart, 1), 0); err != nil {
			t.Fatal(err)
		}
		for w := w.(*writer); ; {
			w.mu.Lock()
			for w.sending > 0 {
				w.changed.Wait()
			}
			w.mu.Unlock()
			break
		}
		storetest.Put(t, s, set, "q", []byte("q"))
	}
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve serve) {
		if r.Method == "DELETE" && !r.URL.Query().Has("uploadId") || r.Method == "POST" {
			broken(w, r, serve)
			return
		}
		serve(w, r)
	})
	if err := s.Remove(t.Context(), "j/1"); err == nil {
		t.Error("removed although the server fails")
	}
	srv.Break(nil)
	if sets, err := s.Sets(t.Context(), "j"); err != nil || len(sets) != 2 {
		t.Errorf("a set that is half removed is not found: %q, %v", sets, err)
	}
	if err := s.Remove(t.Context(), "j/1"); err != nil || srv.Uploads() != 1 {
		t.Errorf("%v, %d uploads, 1 of the other set is wanted", err, srv.Uploads())
	}
	if err := s.Remove(t.Context(), "j"); err != nil || srv.Uploads() > 0 || len(srv.Keys()) > 0 {
		t.Errorf("%v, %d uploads, %q", err, srv.Uploads(), srv.Keys())
	}
}

// TestPages lists more than fits on a page of the server.
func TestPages(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	for i := range 7 {
		set := fmt.Sprint("j/", i)
		if err := s.Begin(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		storetest.Put(t, s, "j/0", fmt.Sprint("p", i), make([]byte, i))
	}
	all, err := s.List(t.Context(), "j/0")
	if err != nil || len(all) != 7 || all[6] != (store.Info{Name: "p6", Size: 6}) {
		t.Errorf("%+v, %v", all, err)
	}
	if sets, err := s.Sets(t.Context(), "j"); err != nil || len(sets) != 7 {
		t.Errorf("%q, %v", sets, err)
	}
	if err := s.Remove(t.Context(), "j"); err != nil || len(srv.Keys()) > 0 {
		t.Errorf("%v, %q", err, srv.Keys())
	}
}

// TestReplaced: a reader reads the object that it has opened and no other.
func TestReplaced(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, s, "s", "p", storetest.Data(1<<20, 1))
	r, err := s.Open(t.Context(), "s", "p")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	storetest.Put(t, s, "s", "p", storetest.Data(1<<20, 2))
	if _, err := r.ReadAt(make([]byte, 10), 500_000); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("%v", err)
	}
}

// TestAnyOrder writes ranges in any order, more parts at once than there are buffers, with a range left out.
func TestAnyOrder(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	const ranges, step = 28, minPart / 4
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		data := storetest.Data(ranges*step-10, byte(seed))
		w, err := s.Create(t.Context(), "s", "p", store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range rand.New(rand.NewPCG(seed, 1)).Perm(ranges) {
			p := data[at*step : min((at+1)*step, len(data))]
			if i == 5 {
				clear(p) // never written
				continue
			}
			if _, err := w.WriteAt(p, int64(at*step)); err != nil {
				t.Fatal(err)
			}
			w := w.(*writer)
			w.mu.Lock()
			if n := len(w.filling) + w.sending + len(w.free); n > buffers {
				t.Errorf("%d buffers", n)
			}
			w.mu.Unlock()
		}
		if err := w.Commit(int64(len(data))); err != nil {
			t.Fatal(err)
		}
		if got, err := storetest.Get(t, s, "s", "p"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("seed %d: %d bytes, %v", seed, len(got), err)
		}
	}
}

// TestReadAhead: in order, few and large requests; a window, no more than it takes.
func TestReadAhead(t *testing.T) {
	srv := s3test.New(t)
	s := open(t, srv)
	if err := s.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	data := storetest.Data(6*ahead, 1)
	storetest.Put(t, s, "s", "p", data)
	for _, c := range []struct{ step, from, to, most int }{
		{1 << 20, 0, len(data), 1 + len(data)/ahead + 1},
		{4096, 5 << 20, 5<<20 + 64<<10, 1},
		{3 << 20, 7 << 20, 10 << 20, 1},
	} {
		r, err := s.Open(t.Context(), "s", "p")
		if err != nil {
			t.Fatal(err)
		}
		before := srv.Asked("GET")
		for at := c.from; at < c.to; at += c.step {
			p := make([]byte, min(c.step, c.to-at))
			if _, err := r.ReadAt(p, int64(at)); err != nil || !bytes.Equal(p, data[at:at+len(p)]) {
				t.Fatalf("at %d: %v", at, err)
			}
		}
		r.Close()
		if n := srv.Asked("GET") - before; n > c.most {
			t.Errorf("%d requests for %d bytes in steps of %d, at most %d are wanted", n, c.to-c.from, c.step, c.most)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, want := range map[string]string{
		"s3://bucket":         "s3://bucket",
		"s3://bucket/":        "s3://bucket",
		"s3://bucket/a/b.c-d": "s3://bucket/a/b.c-d",
		"s3://bucket/a?region=eu-x-1&endpoint=http://host:90&part=16777216": "s3://bucket/a?endpoint=http%3A%2F%2Fhost%3A90&part=16777216&region=eu-x-1",
	} {
		c, err := Parse(name)
		if err != nil || c.String() != want {
			t.Errorf("%s: %s, %v", name, c, err)
		}
		if again, err := Parse(c.String()); err != nil || again.String() != want {
			t.Errorf("%s again: %s, %v", name, again, err)
		}
	}
	for _, name := range []string{"", "bucket", "http://bucket", "s3://", "s3://Bucket", "s3://key:secret@bucket/p", "s3://bucket/a/../b", "s3://bucket/a b",
		"s3://bucket?part=1", "s3://bucket?part=x", "s3://bucket?secret=x", "s3://bucket?endpoint=host", "s3://bucket?endpoint=ftp://x", "s3://bucket#x"} {
		if c, err := Parse(name); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	none := func(name string) string {
		if name == "AWS_SHARED_CREDENTIALS_FILE" {
			return "/nonexistent"
		}
		return ""
	}
	if _, err := Open(Config{Bucket: "bucket", Getenv: none}); !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("s3://bucket/a?region=eu-x-1&endpoint=http://host:90&part=16777216")
	f.Fuzz(func(t *testing.T, name string) {
		c, err := Parse(name)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q: %q, %q, %v", name, c, again, err)
		}
	})
}
