package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// written writes an image into the folder of a node and returns its digest.
func written(t *testing.T, folder, set, piece string) string {
	t.Helper()
	l, err := node.OpenLocal(folder)
	if err == nil {
		err = l.Begin(t.Context(), set)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.Create(t.Context(), set, piece, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := image.NewWriter(out, piece, image.LocalMeta(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Section("x", "k", "", make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return sum.Digest
}

// farBench is a bench whose images lie on node b. The head passes on what the agent asks for.
func farBench(t *testing.T, np int, change func(*wire.Order)) (b *bench, here string, serve func(until oob.Kind) oob.Msg) {
	t.Helper()
	here, there := t.TempDir(), t.TempDir()
	digest := written(t, there, "j/h/1", "rank-00000.img")
	b = newBench(t, np, "", func(o *wire.Order) {
		o.Stores = map[string]wire.Store{wire.StoreFrom: {Kind: node.Kind, Folder: exact.String(here), Node: "a"}}
		for rank := range np {
			o.Start[rank] = oob.StartConfig{Rank: rank, Size: np, Incarnation: 7, Backend: "fake"}
			o.Images[rank] = []wire.Image{{Seq: 1, Store: wire.StoreFrom, Set: "j/h/1", Piece: "rank-00000.img", Digest: digest, Node: "b"}}
		}
		change(o)
	})
	s := &node.Store{Peers: onB(there)}
	server := remote.NewServer(func(name string) remote.Served {
		switch name {
		case wire.StoreFrom:
			return s
		case wire.StoreAt(wire.StoreFrom, "b"):
			return node.Offer(there)
		}
		return nil
	}, func(p []byte) error {
		return b.head.Send(oob.Msg{Kind: oob.Files, From: oob.Head, To: oob.AgentAddr(0), Data: p})
	})
	t.Cleanup(server.Close)
	return b, here, func(until oob.Kind) oob.Msg {
		t.Helper()
		for {
			m, err := b.head.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind == oob.Files {
				if err := server.Handle(m.Data); err != nil {
					t.Fatal(err)
				}
			}
			if m.Kind == until {
				b.pids[m.From] = int(m.B)
				return m
			}
		}
	}
}

// onB are the peers of a head: one node.
type onB string

func (o onB) Peers() ([]node.Peer, []string) {
	return []node.Peer{{Node: "b", Files: node.Offer(o)}}, nil
}

// A restart fetches what is not here, by way of the head.
func TestFetch(t *testing.T) {
	b, here, serve := farBench(t, 2, func(*wire.Order) {})
	serve(oob.Spawn)
	serve(oob.Spawn)
	for range 2 {
		if o := <-b.f.made; o.Image != filepath.Join(here, "j/h/1/rank-00000.img") {
			t.Errorf("%+v", o)
		} else if _, err := image.Verify(o.Image); err != nil {
			t.Error(err)
		}
	}
	b.over()
}

// A rank whose image cannot be had is told with the node that wrote it.
func TestFetchFails(t *testing.T) {
	b, here, serve := farBench(t, 1, func(o *wire.Order) { o.Images[0][0].Digest = strings.Repeat("0", 64) })
	if m := serve(oob.Exit); m.B != 0 || !strings.Contains(string(m.Data), "snapshot 1") || !strings.Contains(string(m.Data), "node b has written it") {
		t.Errorf("%+v %s", m, m.Data)
	}
	if es, err := os.ReadDir(filepath.Join(here, "j/h/1")); err != nil || len(es) > 0 {
		t.Errorf("left: %v, %v", es, err)
	}
	b.over()
}

// Names become paths of the node, and nothing else does.
func TestWriteTo(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(bad, 0o700), os.Chmod(bad, 0o777)); err != nil {
		t.Fatal(err)
	}
	a := &agent{places: &places{open: map[string]store.Store{}}}
	a.order.Stores = map[string]wire.Store{
		"dir": {Kind: store.KindDir, Folder: exact.String(dir)}, "node": {Kind: node.Kind, Folder: exact.String(dir + "/node")},
		"bad": {Kind: node.Kind, Folder: exact.String(bad)}, "new": {Kind: "s3"},
	}
	for _, x := range []struct{ store, path, want, err string }{
		{"", "/x/rank.img", "/x/rank.img", ""},
		{"dir", "j/1/p", dir + "/j/1/p", ""},
		{"node", "j/h/1/p", dir + "/node/j/h/1/p", ""},
		{"node", "j/h/1/q", dir + "/node/j/h/1/q", ""}, // of another rank
		{"node", "../1/p", "", "not a name"},
		{"dir", "/etc/p", "", "not a name"},
		{"dir", "p", "", "not a name"},
		{"bad", "j/1/p", "", "others may change"},
		{"new", "j/1/p", "", "does not know"},
		{"none", "j/1/p", "", "no store"},
	} {
		file, written, err := a.writeTo(&oob.CaptureConfig{Store: x.store, Path: exact.String(x.path)})
		if file != x.want || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s %s: %q, %v", x.store, x.path, file, err)
		}
		if err == nil {
			if err := written(); err != nil {
				t.Error(err)
			}
		}
	}
}
