package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
)

// nodes are folders of some nodes; those that are down cannot be asked.
type nodes struct {
	t    testing.TB
	dir  string
	all  []string
	down []string
}

var atNodes = Place{node.Kind, "/%n"}

func newNodes(t testing.TB, names ...string) *nodes {
	return &nodes{t: t, dir: t.TempDir(), all: names}
}

// Peers are all nodes: the head has no part in the store.
func (n *nodes) Peers() (all []node.Peer, down []string) {
	for _, name := range n.all {
		if slices.Contains(n.down, name) {
			down = append(down, name)
		} else {
			all = append(all, node.Peer{Node: name, Files: n.on(name).Here})
		}
	}
	return all, down
}

// on is the store as a node sees it.
func (n *nodes) on(name string) *node.Store {
	here, err := node.OpenLocal(filepath.Join(n.dir, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return &node.Store{Node: name, Here: here, Peers: n}
}

// catalogue is one whose images lie on the nodes.
func (n *nodes) catalogue() *Catalogue {
	c := catalogue(n.t)
	c.Stores(func(p Place, _ []string) (store.Store, error) {
		if p != atNodes {
			return nil, fmt.Errorf("%s: %w", p, ErrStore)
		}
		return &node.Store{Peers: n}, nil
	})
	return c
}

// begin begins a snapshot and writes its images, that of rank i on node i.
func (n *nodes) begin(c *Catalogue, job string) (*Pending, Schema) {
	n.t.Helper()
	p, err := c.BeginIn(job, atNodes, n.all)
	if err != nil {
		n.t.Fatal(err)
	}
	_, set := p.Images()
	s := Schema{Incarnation: "00000000000000aa", NP: len(n.all), Backend: "self", Program: Program{Path: "/bin/solver", Digest: strings.Repeat("ab", 32)}}
	for rank, name := range n.all {
		st, ctx := n.on(name), n.t.Context()
		if err := st.Begin(ctx, set); err != nil && !errors.Is(err, fs.ErrExist) {
			n.t.Fatal(err)
		}
		w, err := st.Create(ctx, set, ImageFile(rank), store.Options{})
		if err != nil {
			n.t.Fatal(err)
		}
		m := image.LocalMeta()
		m.Job, m.Incarnation, m.Rank, m.Size, m.Seq, m.Backend = p.Job, s.Incarnation, rank, s.NP, p.Seq, "self"
		img, err := image.NewWriter(w, name, m, image.Options{BlockSize: 4096})
		if err != nil {
			n.t.Fatal(err)
		}
		if err := img.Section("x", "value", "string", bytes.Repeat([]byte{byte(rank), 1, 2}, 3000)); err != nil {
			n.t.Fatal(err)
		}
		sum, err := img.Commit()
		if err == nil {
			err = st.Commit(ctx, set)
		}
		if err != nil {
			n.t.Fatal(err)
		}
		s.Images = append(s.Images, Image{Rank: rank, File: ImageFile(rank), Size: sum.Size, Digest: sum.Digest, Codec: "none", Node: name})
		s.Placement = append(s.Placement, Placement{rank, rank, name})
	}
	return p, s
}

func (n *nodes) commit(c *Catalogue, job string) *Snapshot {
	n.t.Helper()
	p, s := n.begin(c, job)
	snap, h, err := p.Commit(s)
	if err != nil {
		n.t.Fatal(err)
	}
	h.Release()
	return snap
}

// files lists what lies on the nodes.
func (n *nodes) files() (all []string) {
	filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(n.dir, path)
			all = append(all, rel)
		}
		return err
	})
	return all
}

func TestPlaces(t *testing.T) {
	n := newNodes(t, "a", "b", "c")
	c := n.catalogue()
	n.commit(c, jobA)
	s, err := c.Find(jobA)
	if err != nil || s.Place() != atNodes || !slices.Equal(s.Nodes(), n.all) || s.Schema.Format != Format {
		t.Fatal(s, err)
	}
	if es, err := os.ReadDir(s.Dir); err != nil || len(es) != 2 { // schema and lock
		t.Error(es, err)
	}
	if err := errors.Join(s.Check(), s.Verify(nil)); err != nil {
		t.Error(err)
	}
	if r, err := s.Image(1).Open(); err != nil || r.Meta().Rank != 1 || r.Close() != nil {
		t.Error(err)
	}

	n.down = []string{"b"}
	err = s.Check()
	var bad *ImageError
	if !errors.As(err, &bad) || bad.Rank != 1 || !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "image b:") {
		t.Errorf("a node is down: %v", err)
	}
	n.down = nil
	path, err := n.on("c").Path(s.Schema.Set, ImageFile(2))
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.ReadFile(path)
	if err == nil {
		p[4096] ^= 1
		err = os.WriteFile(path, p, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(nil); !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("a bit was flipped: %v", err)
	}

	if _, err := Load(s.Dir); err != nil {
		t.Error(err)
	}
	alone, _ := Load(s.Dir)
	if err := alone.Check(); !errors.Is(err, ErrStore) {
		t.Errorf("without a way to the nodes: %v", err)
	}
	if other, _ := Open(c.Root()); other.Remove(jobA) == nil || len(n.files()) != 3 {
		t.Error("removed by a catalogue without a way to the nodes")
	}
	if err := c.Remove(jobA); err != nil || len(n.files()) != 0 {
		t.Errorf("left: %q, %v", n.files(), err)
	}
}

// TestPlacesPrune prunes while a node is away, and sweeps when it is back.
func TestPlacesPrune(t *testing.T) {
	n := newNodes(t, "a", "b")
	c, other := n.catalogue(), n.catalogue()
	for range 3 {
		n.commit(c, jobA)
	}
	theirs := n.commit(other, jobA) // of the same job and with the same number, in another catalogue
	discarded, _ := n.begin(c, jobA)
	if err := discarded.Discard(); err != nil || len(n.files()) != 8 {
		t.Fatalf("after Discard: %q, %v", n.files(), err)
	}
	n.down = []string{"b"}
	done, err := c.Prune(jobA, 1)
	if err == nil || !strings.Contains(err.Error(), "none of its snapshots is intact") {
		t.Errorf("pruned although no snapshot is whole: %+v, %v", done, err)
	}
	n.down = nil
	if done, err := c.Prune(jobA, 2); err != nil || !slices.Equal(done.Removed, []int{1}) || len(n.files()) != 6 {
		t.Errorf("%+v, %v, left %q", done, err, n.files())
	}
	for range 2 {
		n.commit(c, jobA)
	}
	// b goes away after it was found that the newest is whole.
	done, err = c.prune(jobA, keepN(1), func(s *Snapshot) error {
		defer func() { n.down = []string{"b"} }()
		return s.Check()
	})
	if !slices.Equal(done.Removed, []int{2, 3, 5}) || !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), ": b") {
		t.Errorf("%+v, %v", done, err)
	}
	if gone, err := c.Sweep(jobA); len(gone) != 0 || err != nil {
		t.Errorf("swept %q, %v", gone, err)
	}
	n.down = nil
	gone, err := c.Sweep(jobA)
	if err != nil || len(gone) != 3 {
		t.Errorf("swept %q, %v", gone, err)
	}
	if left := n.files(); len(left) != 4 {
		t.Errorf("left: %q", left)
	}
	if err := theirs.Verify(nil); err != nil {
		t.Errorf("of the other catalogue: %v", err)
	}
}

// TestPlacesCopied copies a job's folder. The images are the original's.
func TestPlacesCopied(t *testing.T) {
	n := newNodes(t, "a")
	c, copied := n.catalogue(), n.catalogue()
	n.commit(c, jobA)
	n.commit(c, jobA)
	if err := os.CopyFS(copied.JobDir(jobA), os.DirFS(c.JobDir(jobA))); err != nil {
		t.Fatal(err)
	}
	n.commit(c, jobA) // of this one the copy knows nothing
	s, err := copied.Find(jobA)
	if err == nil {
		err = s.Verify(nil)
	}
	if err != nil || s.Schema.Sequence != 2 {
		t.Fatal(s, err)
	}
	if gone, err := copied.Sweep(jobA); len(gone) > 0 || err != nil {
		t.Errorf("swept %q, %v", gone, err)
	}
	if done, err := copied.Prune(jobA, 1); len(done.Removed) != 1 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	if s := n.commit(copied, jobA); s.Schema.Sequence != 3 {
		t.Error(s.Schema.Sequence)
	}
	if err := copied.Remove(jobA); err != nil {
		t.Error(err)
	}
	for seq := range 3 {
		s, err := c.Find(fmt.Sprint(jobA, "/", seq+1))
		if err == nil {
			err = s.Verify(nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if left := n.files(); len(left) != 3 {
		t.Errorf("left: %q", left)
	}
}

// TestPlacesOfOneFolder has two places in one folder, as by another path to it or by a seal. Neither takes what lies in the other for
// leftovers, or writes over it.
func TestPlacesOfOneFolder(t *testing.T) {
	n, alias := newNodes(t, "a", "b"), Place{node.Kind, "/./%n"}
	c := n.catalogue()
	c.Stores(func(Place, []string) (store.Store, error) { return &node.Store{Peers: n}, nil })
	first := n.commit(c, jobA)
	twice, err := c.Copy(first, alias, n.all)
	if err != nil {
		t.Fatal(err)
	}
	if _, set := twice.Images(); set == first.Schema.Set {
		t.Errorf("both copies are set %s", set)
	}
	if err := twice.Abort(false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if gone, err := c.Sweep(jobA); err != nil || len(gone) > 0 {
			t.Errorf("swept: %q, %v", gone, err)
		}
		if err := first.Verify(nil); err != nil {
			t.Error(err)
		}
		// As the first gorun did it: both places have the same home.
		s, err := readStores(c.JobDir(jobA))
		if err != nil {
			t.Fatal(err)
		}
		s.Places[1].Home = ""
		var b bytes.Buffer
		if err := errors.Join(toml.NewEncoder(&b).Encode(s), os.WriteFile(filepath.Join(c.JobDir(jobA), storesFile), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Remove(jobA); err != nil {
		t.Fatal(err)
	}
	if left := n.files(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestPlacesCrash ends the process after each step of a commit, and looks at what the next one finds.
func TestPlacesCrash(t *testing.T) {
	var steps []string
	n := newNodes(t, "a")
	p, s := n.begin(n.catalogue(), jobA)
	p.step = func(s string) error { steps = append(steps, s); return nil }
	if _, h, err := p.Commit(s); err != nil {
		t.Fatal(err)
	} else {
		h.Release()
	}
	crash := errors.New("crash")
	for i, at := range append([]string{"begun"}, steps...) {
		n := newNodes(t, "a", "b")
		c := n.catalogue()
		first := n.commit(c, jobA)
		p, s := n.begin(c, jobA)
		p.step = func(step string) error {
			if step == at {
				return crash
			}
			return nil
		}
		if at != "begun" {
			if _, _, err := p.Commit(s); !errors.Is(err, crash) {
				t.Fatalf("%s: %v", at, err)
			}
		}
		die(p)
		renamed := slices.Index(steps, "schema renamed")
		newest, err := c.Latest(jobA)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		if whole := i-1 >= renamed; whole != (newest.Schema.Sequence == p.Seq) || !whole && newest.Schema.Sequence != first.Schema.Sequence {
			t.Errorf("%s: the newest is %d", at, newest.Schema.Sequence)
		}
		if err := newest.Verify(nil); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := c.Sweep(jobA); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		want := 2 * newest.Schema.Sequence
		if got := n.files(); len(got) != want {
			t.Errorf("%s: left on the nodes: %q", at, got)
		}
	}
}

// FuzzStores parses lists of stores from files that anybody may have damaged.
func FuzzStores(f *testing.F) {
	f.Add([]byte("home = \"0123abcd\"\nnodes = [\"a\"]\n[[store]]\nkind = \"node\"\nfolder = \"/x/%n\"\n"))
	f.Add([]byte("home = \"../../..\"\n"))
	f.Add([]byte("home = \"0123abcd\"\n[[store]]\nkind = \"dir\"\nfolder = \"/x\"\n[[store]]\nkind = \"dir\"\nfolder = \"/y\"\nhome = \"../../..\"\n"))
	f.Add([]byte("[[[[[[[["))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := parseStores(p)
		if err != nil {
			return
		}
		for _, p := range s.Places {
			if err := store.CheckSet(s.set(jobA, p.Place, 7)); err != nil {
				t.Error(err)
			}
		}
	})
}
