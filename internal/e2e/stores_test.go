package e2e

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/s3test"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// bucket starts an object store for the jobs of a house, and returns the flags that send images there.
func (h *house) bucket() (*s3test.Server, []string) {
	h.t.Helper()
	srv := s3test.New(h.t)
	h.env = append(h.env, "AWS_ACCESS_KEY_ID="+s3test.KeyID, "AWS_SECRET_ACCESS_KEY="+s3test.Secret, "AWS_ENDPOINT_URL="+srv.URL, "AWS_REGION="+s3test.Region)
	return srv, []string{"-ckpt-store", "s3://" + s3test.Bucket + "/e2e"}
}

// images are the objects that images are.
func images(srv *s3test.Server) (all []string) {
	for _, key := range srv.Keys() {
		if strings.HasSuffix(key, ".img") {
			all = append(all, key)
		}
	}
	return all
}

// noSecrets looks through all files of a house.
func (h *house) noSecrets() {
	h.t.Helper()
	err := filepath.WalkDir(h.ckpt, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		p, err := os.ReadFile(path)
		if bytes.Contains(p, []byte(s3test.Secret)) || bytes.Contains(p, []byte(s3test.KeyID)) {
			h.t.Errorf("credentials are in %s", path)
		}
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
}

// TestObjectStore: images of whole processes go to an object store, full and incremental, and a restart elsewhere reads
// them there.
func TestObjectStore(t *testing.T) {
	h := nativeHouse(t)
	srv, flags := h.bucket()
	program := solver("-poisson", "8", "-iters", "400", "-tol", "0")
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	r := h.nativeRun(2, append(flags, "-keep", "2"), append(program, "-slow", "10ms")...)
	for range 3 {
		r.checkpoint()
	}
	// What the store refuses is told, and the job goes on.
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
		if r.Method == "PUT" && strings.Contains(r.URL.Path, "rank-00001") {
			s3test.Refuse(w, http.StatusForbidden, "AccessDenied", "no more")
			return
		}
		serve(w, r)
	})
	if _, errs, code := h.gorun("checkpoint", r.id); code == 0 || !strings.Contains(errs, "rank 1") || !strings.Contains(errs, "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("a store that refuses: exit %d, %s", code, errs)
	}
	srv.Break(nil)
	schema := r.checkpoint()
	r.kill()
	h.noSecrets()
	if left, err := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "*.img")); len(left) > 0 || err != nil {
		t.Errorf("images lie beside their schemas: %v, %v", left, err)
	}
	s := readSchema(t, schema)
	if s.Store != "s3" || !strings.Contains(s.Folder, s3test.Bucket) || len(images(srv)) == 0 || srv.Uploads() > 0 {
		t.Errorf("store %q in %q, objects %q, %d uploads", s.Store, s.Folder, srv.Keys(), srv.Uploads())
	}
	h.must("snapshots", "-verify", schema)
	if got := h.restart(schema).ended(); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}

	env := h.env
	h.env = append(env[:len(env):len(env)], "AWS_ACCESS_KEY_ID=", "AWS_SHARED_CREDENTIALS_FILE=/nonexistent", "AWS_CONFIG_FILE=/nonexistent")
	if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, "AWS_ACCESS_KEY_ID") {
		t.Errorf("without credentials: exit %d, %s", code, errs)
	}
	h.env = env
	all := images(srv)
	srv.Data(all[len(all)-1])[5000] ^= 1
	if _, errs, code := h.gorun("snapshots", "-verify", schema); code == 0 || !strings.Contains(errs, "rank 1") {
		t.Errorf("a damaged object: exit %d, %s", code, errs)
	}
	h.must("snapshots", "-remove", s.Job)
	if left := srv.Keys(); len(left) > 0 {
		t.Errorf("objects are left: %q", left)
	}
}

// TestObjectStoreLevel: an object store, sealed, is the slower of two levels. It alone is left for the restart. Images are
// incremental: what they build on is there, too.
func TestObjectStoreLevel(t *testing.T) {
	h := nativeHouse(t)
	srv, _ := h.bucket()
	key, stores := filepath.Join(h.run, "key"), filepath.Join(h.run, "stores.toml")
	h.must("key", key)
	text := fmt.Sprintf("[far]\nkind = 's3'\nplace = 's3://%s/levels'\nkey_file = %q\nkeep = 2\n", s3test.Bucket, key)
	if err := os.WriteFile(stores, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	program := solver("-poisson", "8", "-iters", "300", "-tol", "0")
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	r := h.nativeRun(2, []string{"-ckpt-every", "dir=100ms,far=200ms", "-stores", stores, "-keep", "3"}, append(program, "-slow", "10ms")...)
	testenv.Until(t, func() string {
		if said := r.errs.String(); strings.Count(said, "level far has snapshot") < 2 {
			return said
		}
		return ""
	})
	r.kill()
	for _, name := range images(srv) {
		if bytes.Contains(srv.Data(name), []byte(s3test.Secret)) { // a process has its environment in its memory
			t.Errorf("%s is not sealed", name)
		}
	}
	local, err := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "*.img"))
	if err != nil || len(local) == 0 {
		t.Fatal(local, err)
	}
	newest := 0
	for _, name := range local {
		if _, err := os.Stat(filepath.Join(filepath.Dir(name), "schema.toml")); err == nil { // else it is of one that the end has cut short
			seq, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			newest = max(newest, seq)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	again := h.restart(filepath.Base(filepath.Dir(filepath.Dir(local[0]))), "-ckpt-every", "0")
	if got := again.ended(); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	said := again.errs.String()
	if from := regexp.MustCompile(`goes on from snapshot (\d+)`).FindStringSubmatch(said); from == nil {
		t.Error(said)
	} else if seq, err := strconv.Atoi(from[1]); err != nil || seq > newest+1 || seq < newest && !strings.Contains(said, "cannot be used") { // what was merged for far has the next number
		t.Errorf("not told that newer ones were passed over: %s", said)
	}
}

// far is a bucket for the level of that name, and the file that -stores names.
func (h *house) far() (srv *s3test.Server, stores string) {
	h.t.Helper()
	srv, _ = h.bucket()
	stores = filepath.Join(h.run, "stores.toml")
	if err := os.WriteFile(stores, fmt.Appendf(nil, "[far]\nkind = 's3'\nplace = 's3://%s/levels'\n", s3test.Bucket), 0o644); err != nil {
		h.t.Fatal(err)
	}
	return srv, stores
}

// TestObjectStoreSilent: the server of a level answers no more, in the middle of a copy. A faster level gets its copies nevertheless. The job goes on, and
// ends; nobody waits for that copy.
func TestObjectStoreSilent(t *testing.T) {
	h := nativeHouse(t)
	srv, stores := h.far()
	program := solver("-poisson", "8", "-iters", "300", "-tol", "0")
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	asked := make(chan bool, 100)
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
		if r.Method != http.MethodPut && r.Method != http.MethodPost {
			serve(w, r)
			return
		}
		select {
		case asked <- true:
		default:
		}
		io.Copy(io.Discard, r.Body) // else the server does not see that the client is gone
		<-r.Context().Done()
	})
	r := h.nativeRun(2, []string{"-ckpt-every", "mem=50ms,dir=100ms,far=200ms", "-ckpt-mirror", "none", "-stores", stores, "-keep", "3"}, append(program, "-slow", "10ms")...)
	<-asked
	had := strings.Count(r.errs.String(), "level dir has snapshot")
	testenv.Until(t, func() string {
		if said := r.errs.String(); strings.Count(said, "level dir has snapshot") < had+3 {
			return said
		}
		return ""
	})
	if got := r.ended(); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	if said := r.errs.String(); strings.Contains(said, "level far has snapshot") {
		t.Errorf("a copy that nobody has taken: %s", said)
	}
}

// TestObjectStoreSilentRestart: the server of a level answers nothing any more, also not what old snapshots there are. A rank dies, and the job goes on without
// waiting for that.
func TestObjectStoreSilentRestart(t *testing.T) {
	h := nativeHouse(t)
	srv, stores := h.far()
	program := solver("-poisson", "8", "-iters", "300", "-tol", "0")
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	r := h.nativeRun(2, []string{"-ckpt-every", "dir=100ms,far=200ms", "-stores", stores, "-keep", "2", "-restarts", "1"}, append(program, "-slow", "20ms")...)
	if !r.errs.wait("level far has snapshot", 1) {
		t.Fatal(r.errs)
	}
	lists, answers := make(chan bool, 100), make(chan bool)
	var gaveUp atomic.Int32
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
		if r.Method == http.MethodGet && r.URL.Query().Has("prefix") {
			select {
			case lists <- true:
			default:
			}
		}
		select {
		case <-answers:
			serve(w, r)
		case <-r.Context().Done():
			gaveUp.Add(1)
		}
	})
	<-lists
	_, ranks := r.family()
	if err := syscall.Kill(ranks[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !r.errs.wait("ranks are up", 2) || gaveUp.Load() > 0 {
		t.Errorf("the restart has waited for the store: %s", r.errs)
	}
	close(answers)
	if got := r.ended(); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
}

// TestObjectStoreSilentLevel: the server of a level answers nothing, also not which images it has, when it is looked after. The level between memory and that gets its
// copies nevertheless.
func TestObjectStoreSilentLevel(t *testing.T) {
	h := nativeHouse(t)
	srv, stores := h.far()
	r := h.nativeRun(2, []string{"-ckpt-every", "mem=50ms,dir=100ms,far=200ms", "-ckpt-mirror", "none", "-stores", stores, "-keep", "100", "-heartbeat", "200ms"},
		solver("-poisson", "8", "-iters", "100000", "-tol", "0", "-slow", "10ms")...)
	if !r.errs.wait("level far has snapshot", 2) {
		t.Fatal(r.errs)
	}
	answers := make(chan bool)
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
		select {
		case <-answers:
			serve(w, r)
		case <-r.Context().Done():
		}
	})
	had := strings.Count(r.errs.String(), "level dir has snapshot")
	testenv.Until(t, func() string { // levels are looked after every second
		if said := r.errs.String(); strings.Count(said, "level dir has snapshot") < had+20 {
			return said
		}
		return ""
	})
	close(answers)
	h.must("kill", r.id)
	r.wait()
}

// TestSealed: ranks that image themselves write through their agents, sealed with a key, into an object store and into
// the folder for snapshots.
func TestSealed(t *testing.T) {
	for _, where := range []string{"bucket", "folder"} {
		t.Run(where, func(t *testing.T) {
			h := newHouse(t)
			var flags []string
			if where == "bucket" {
				_, flags = h.bucket()
			}
			key := filepath.Join(h.run, "key")
			h.must("key", key)
			program := append([]string{"-np", "2"}, solver(shortRun...)...)
			want := digest(t, h.must(program...))
			args := append(append(flags, "-ckpt-key", key), append(program, "-slow", "10ms")...)
			schema := h.stopped("-cr=self", args)
			h.noSecrets()
			if s := readSchema(t, schema); !strings.HasSuffix(s.Store, "+sealed") || !strings.HasPrefix(s.Folder, key+":") {
				t.Errorf("store %q in %q", s.Store, s.Folder)
			}
			h.must("snapshots", "-verify", schema)

			if err := os.Rename(key, key+".away"); err != nil {
				t.Fatal(err)
			}
			if _, errs, code := h.gorun("restart", schema); code == 0 || !strings.Contains(errs, "key file "+key) {
				t.Errorf("without the key: exit %d, %s", code, errs)
			}
			h.must("key", key)
			for _, which := range []string{schema, "latest"} {
				if _, errs, code := h.gorun("restart", which); code == 0 || strings.Count(errs, "another key") != 1 {
					t.Errorf("restart %s with another key: exit %d, and not once why: %s", which, code, errs)
				}
			}
			if err := os.Rename(key+".away", key); err != nil {
				t.Fatal(err)
			}
			if got := digest(t, h.must("restart", schema)); got != want {
				t.Errorf("digest %s, undisturbed %s", got, want)
			}
			h.clean()
		})
	}
}
