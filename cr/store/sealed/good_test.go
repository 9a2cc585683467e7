package sealed

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// nodes are the peers of a store on nodes.
type nodes []node.Peer

func (n nodes) Peers() ([]node.Peer, []string) { return n, nil }

// TestGood damages one node's copy of a sealed image: the other's is opened.
func TestGood(t *testing.T) {
	key := keyFile(t)
	var all nodes
	var paths []string
	for _, name := range []string{"a", "b"} {
		local, err := node.OpenLocal(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, node.Peer{Node: name, Files: local})
		path, err := local.Path("s", "p")
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	here, err := Wrap(all[0].Files.(store.Store), key)
	if err != nil {
		t.Fatal(err)
	}
	digest := storetest.PutImage(t, here, "s", "p", storetest.Data(300_000, 7))
	sealed, err := os.ReadFile(paths[0])
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(paths[1]), 0o700), os.WriteFile(paths[1], sealed, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Wrap(&node.Store{Peers: all}, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		damage(t, paths[i], sealed)
		r, err := s.OpenGood(t.Context(), "s", "p", digest)
		if i == 1 { // the other is damaged already
			if !errors.Is(err, ErrSealed) {
				t.Errorf("both copies are damaged: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(image.Prove(r, r.Size(), "opened", digest), r.Close()); err != nil {
			t.Errorf("opened as good: %v", err)
		}
		if _, err := s.OpenGood(t.Context(), "s", "p", "00"); !errors.Is(err, image.ErrCorrupt) {
			t.Errorf("an image with another digest: %v", err)
		}
	}
}

// damage flips a bit in the middle.
func damage(t *testing.T, path string, content []byte) {
	t.Helper()
	bad := append([]byte(nil), content...)
	bad[len(bad)/2] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
}
