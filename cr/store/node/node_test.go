package node

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// cluster is some nodes that see each other through remote stores.
type cluster struct {
	t       testing.TB
	folders map[string]Local
	gone    []string
	spoil   map[string]func(n int) bool // by node: whether the n-th frame that it sends ends the connection
}

func newCluster(t testing.TB, names ...string) *cluster {
	c := &cluster{t: t, folders: map[string]Local{}, spoil: map[string]func(int) bool{}}
	dir := t.TempDir()
	for _, n := range names {
		folder, err := Expand(filepath.Join(dir, "%n"), n)
		if err != nil {
			t.Fatal(err)
		}
		if c.folders[n], err = OpenLocal(folder); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// on is the store as node n sees it.
func (c *cluster) on(n string) *Store {
	s := &Store{Node: n, Peers: &view{c: c, of: n, links: map[string]*remote.Client{}}}
	if here, ok := c.folders[n]; ok {
		s.Here = here
	}
	return s
}

// head is the store as a head sees it that has no part in it.
func (c *cluster) head() *Store { return c.on("") }

// view is the peers of one node.
type view struct {
	c     *cluster
	of    string
	links map[string]*remote.Client
}

func (v *view) Peers() (all []Peer, unreachable []string) {
	for _, n := range slices.Sorted(maps.Keys(v.c.folders)) {
		switch {
		case n == v.of:
		case slices.Contains(v.c.gone, n):
			unreachable = append(unreachable, n)
		default:
			if v.links[n] == nil {
				v.links[n] = v.c.connect(n)
			}
			all = append(all, Peer{n, v.links[n].Store(Kind)})
		}
	}
	return all, unreachable
}

// connect connects a client to the server of node n, by goroutines that carry frames.
func (c *cluster) connect(n string) *remote.Client {
	up, down := make(chan []byte, 256), make(chan []byte, 256)
	over := make(chan struct{})
	sender := func(to chan []byte) func([]byte) error {
		return func(p []byte) error {
			select {
			case to <- bytes.Clone(p):
				return nil
			case <-over:
				return fs.ErrClosed
			}
		}
	}
	client := remote.NewClient(sender(up))
	server := remote.NewServer(func(string) remote.Served { return c.folders[n] }, sender(down))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sent := 0
		for {
			var err error
			select {
			case p := <-up:
				err = server.Handle(p)
			case p := <-down:
				sent++
				if spoil := c.spoil[n]; spoil != nil && spoil(sent) {
					client.Close(errors.New("power cut"))
					return
				}
				err = client.Handle(p)
			case <-over:
				return
			}
			if err != nil {
				c.t.Errorf("node %s: %v", n, err)
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		close(over)
		<-ended
		client.Close(nil)
		server.Close()
	})
	return client
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		c := newCluster(t, "a", "b")
		return storetest.Subject{Store: c.on("a"), Readers: []store.Reading{c.on("b"), c.head()}}
	})
}

// put writes an image on a node and returns its digest.
func (c *cluster) put(node, set, piece string, data []byte) string {
	c.t.Helper()
	return storetest.PutImage(c.t, c.on(node), set, piece, data)
}

// flip damages one bit in the middle of a piece.
func (c *cluster) flip(node, set, piece string) {
	c.t.Helper()
	path, err := c.folders[node].Path(set, piece)
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := os.ReadFile(path)
	if err == nil {
		p[len(p)/2] ^= 4
		err = os.WriteFile(path, p, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestFetch(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	data := storetest.Data(3*remote.Window+5, 1)
	digest := c.put("a", "j/h/1", "p", data)
	b := c.on("b")
	var told int64
	got, err := b.Fetch(t.Context(), "j/h/1", "p", Image(digest), func(n int64) { told += n })
	if err != nil || got.From != "a" || got.Bytes != told || told < int64(len(data)) {
		t.Fatalf("%+v, told of %d, %v", got, told, err)
	}
	if got, err = b.Fetch(t.Context(), "j/h/1", "p", Image(digest), nil); err != nil || got != (Fetched{From: "b"}) {
		t.Errorf("again: %+v, %v", got, err)
	}
	c.gone = []string{"a"}
	if got, err = c.on("c").Fetch(t.Context(), "j/h/1", "p", Image(digest), nil); err != nil || got.From != "b" {
		t.Errorf("from who has fetched it: %+v, %v", got, err)
	}
}

// TestFetchDamaged meets copies with one wrong bit: elsewhere, and here.
// finder is Peers of whom somebody else asks the nodes, as those of an agent.
type finder struct {
	Alone
	have []Peer
}

func (f finder) Find(context.Context, string, string) ([]Peer, error) { return f.have, nil }

// TestOpenFound: a piece is read where it lies, and is not copied.
func TestOpenFound(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.put("a", "j/h/1", "p", storetest.Data(3*remote.Window+5, 1))
	b := c.on("b")
	b.Peers = finder{have: []Peer{{"a", c.connect("a").Store(Kind)}}}
	r, err := b.Open(t.Context(), "j/h/1", "p")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	img, err := image.NewReader(r, r.Size(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if err := img.ReadRange("data", "x", remote.Window, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if _, err := c.folders["b"].Stat(t.Context(), "j/h/1", "p"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was copied: %v", err)
	}
}

func TestFetchDamaged(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	data := storetest.Data(300_000, 1)
	digest := c.put("a", "j/1", "p", data)
	c.put("b", "j/1", "p", data)
	c.flip("a", "j/1", "p")
	s := c.on("c")
	if got, err := s.Fetch(t.Context(), "j/1", "p", Image(digest), nil); err != nil || got.From != "b" {
		t.Fatalf("%+v, %v", got, err)
	}
	c.flip("c", "j/1", "p")
	if got, err := s.Fetch(t.Context(), "j/1", "p", Image(digest), nil); err != nil || got.From != "b" {
		t.Errorf("in place of a damaged one: %+v, %v", got, err)
	}
	if _, d, _, err := c.head().Check(t.Context(), "j/1", "p", true); err != nil || d != digest {
		t.Errorf("one of several is good: %s, %v", d, err)
	}
	c.flip("b", "j/1", "p")
	c.flip("c", "j/1", "p")
	_, err := s.Fetch(t.Context(), "j/1", "p", Image(digest), nil)
	if !errors.Is(err, image.ErrCorrupt) || !strings.Contains(err.Error(), "from a") || !strings.Contains(err.Error(), "from b") {
		t.Errorf("all are damaged: %v", err)
	}
	if _, _, _, err := c.head().Check(t.Context(), "j/1", "p", true); !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("all are damaged: %v", err)
	}
	if all, err := c.folders["c"].List(t.Context(), "j/1"); err != nil || len(all) != 1 {
		t.Errorf("left: %+v, %v", all, err)
	}
}

// TestVanish has the node that is read end at every frame in turn. Another has the piece as well, or none has.
func TestVanish(t *testing.T) {
	data := storetest.Data(3*remote.MaxRead, 1)
	for _, second := range []bool{true, false} {
		for at := 1; ; at++ {
			c := newCluster(t, "a", "b", "c")
			digest := c.put("a", "j/1", "p", data)
			if second {
				c.put("b", "j/1", "p", data)
			}
			hit := false
			c.spoil["a"] = func(n int) bool { hit = hit || n == at; return n == at }
			s := c.on("c")
			got, err := s.Fetch(t.Context(), "j/1", "p", Image(digest), nil)
			switch {
			case !hit && err == nil:
				if at < 5 {
					t.Fatalf("only %d frames were sent", at)
				}
			case second && (err != nil || got.From != "b"):
				t.Errorf("frame %d: %+v, %v", at, got, err)
			case !second && (!errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "a")):
				t.Errorf("frame %d: %v", at, err)
			}
			if !second && hit {
				if all, err := c.folders["c"].List(t.Context(), "j/1"); len(all) > 0 {
					t.Errorf("frame %d: half of a piece is there: %+v, %v", at, all, err)
				}
			}
			if !hit {
				break
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	digest := c.put("a", "j/1", "p", []byte("x"))
	c.put("b", "j/1", "q", []byte("y"))
	c.gone = []string{"a"}
	s, ctx := c.on("c"), t.Context()
	is := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), ": a") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.Fetch(ctx, "j/1", "p", Image(digest), nil)
	is("fetch", err)
	_, err = s.Open(ctx, "j/1", "p")
	is("open", err)
	_, err = s.Stat(ctx, "j/1", "p")
	is("stat", err)
	_, _, _, err = s.Check(ctx, "j/1", "p", true)
	is("check", err)
	sets, err := s.Sets(ctx, "j")
	is("sets", err)
	all, lerr := s.List(ctx, "j/1")
	if !slices.Equal(sets, []string{"j/1"}) || lerr != nil || len(all) != 1 || all[0] != (store.Info{Name: "q", Size: all[0].Size, Node: "b"}) {
		t.Errorf("%q, %+v, %v", sets, all, lerr)
	}
	is("remove", s.Remove(ctx, "j"))
	if es, err := os.ReadDir(c.folders["b"].Root()); len(es) != 0 || err != nil {
		t.Errorf("left on b: %v, %v", es, err)
	}
	c.gone = nil
	if err := s.Remove(ctx, "j"); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "j/1", "p"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrUnreachable) {
		t.Errorf("all answer: %v", err)
	}
}

func TestSHA256(t *testing.T) {
	c := newCluster(t, "a", "b")
	if err := c.folders["a"].Begin(t.Context(), "j/programs"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, c.on("a"), "j/programs", "x", []byte("abc"))
	sum := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if _, err := c.on("b").Fetch(t.Context(), "j/programs", "x", SHA256(strings.Repeat("0", 64)), nil); !errors.Is(err, image.ErrCorrupt) {
		t.Error(err)
	}
	if _, err := c.on("b").Fetch(t.Context(), "j/programs", "x", SHA256(sum), nil); err != nil {
		t.Error(err)
	}
}

// TestCanceled gives a fetch up.
func TestCanceled(t *testing.T) {
	c := newCluster(t, "a", "b")
	digest := c.put("a", "j/1", "p", storetest.Data(20<<20, 1))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.on("b").Fetch(ctx, "j/1", "p", Image(digest), func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNoPart(t *testing.T) {
	h, ctx := newCluster(t, "a").head(), t.Context()
	_, e1 := h.Create(ctx, "j/1", "p", store.Options{})
	_, e2 := h.Path("j/1", "p")
	_, e3 := h.Fetch(ctx, "j/1", "p", nil, nil)
	for i, err := range []error{e1, e2, e3, h.Begin(ctx, "j/1"), h.Commit(ctx, "j/1")} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Error(i, err)
		}
	}
}

func TestExpand(t *testing.T) {
	for _, x := range []struct{ folder, node, want string }{
		{"/scratch", "a", "/scratch"}, {"/scratch/%n/x/", "n1.example", "/scratch/n1.example/x"}, {"/a%%n", "b", "/a%n"},
		{"scratch", "a", ""}, {"", "a", ""}, {"/x/%h", "a", ""}, {"/x/%", "a", ""}, {"/x/%n", "..", ""}, {"/x/%n", "a/b", ""}, {"/x/%n", "", ""}, {"/x\x00", "a", ""},
	} {
		got, err := Expand(x.folder, x.node)
		if got != x.want || (err == nil) != (x.want != "") || err != nil && !errors.Is(err, ErrFolder) {
			t.Errorf("%q on %q: %q, %v", x.folder, x.node, got, err)
		}
	}
}

// TestLevelOfOthers: whoever owns a level of the path can exchange all that is below.
func TestLevelOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	const stranger = 23002
	dir := t.TempDir()
	his := filepath.Join(dir, "his")
	mine := filepath.Join(his, "mine")
	link := filepath.Join(dir, "link")
	err := errors.Join(os.MkdirAll(mine, 0o700), os.Chown(his, stranger, stranger), os.Symlink(t.TempDir(), link), os.Lchown(link, stranger, stranger))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{his, mine, filepath.Join(mine, "new"), link, filepath.Join(link, "new")} {
		if _, err := OpenLocal(path); !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	file := filepath.Join(dir, "file")
	err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.WriteFile(file, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, file, filepath.Join(file, "below")} {
		if _, err := OpenLocal(path); !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, dir, filepath.Join(dir, "new")} {
		if _, err := OpenLocal(path); err != nil {
			t.Error(err)
		}
	}
}
