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
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
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

// far is a node b that has images, which a head and a door offer.
type far struct {
	there string // its folder
	way   wire.Ticket
	asked int // of the head, for bytes: frames after the way was told
	says  []string
}

// farBench is a bench whose images lie on node b. The head passes on what the agent asks for, and tells the way there.
func farBench(t *testing.T, np int, f *far, change func(*wire.Order)) (b *bench, here string, serve func(until oob.Kind) oob.Msg) {
	t.Helper()
	here, there := t.TempDir(), t.TempDir()
	if f.there == "" {
		f.there = there
	}
	there = f.there
	digest := written(t, there, "j/h/1", "rank-00000.img")
	b = newBenchOf(t, np, "", func(a *agent, _ *fakeImager) {
		a.places.ways.say = func(text string) { f.says = append(f.says, text) }
	}, func(o *wire.Order) {
		o.Stores = map[string]wire.Store{wire.StoreFrom: {Kind: node.Kind, Folder: rawstring.String(here), Node: "a"}}
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
			if m.Kind == oob.Ticket {
				b.send(oob.Msg{Kind: oob.Ticket, From: oob.Head, To: oob.AgentAddr(0), A: m.A, Data: wire.JSON(f.way)})
			}
			if m.Kind == oob.Files {
				f.asked++
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

// A restart fetches what is not here from the node that has it.
func TestFetch(t *testing.T) {
	there := t.TempDir()
	d, err := listener.Open("b", map[string]listener.Handler{listener.Files: listener.Offer(func(name string) remote.Served {
		if name != "7" {
			return nil
		}
		return node.Offer(there)
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ticket, err := d.Key().Ticket(0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{there: there, way: wire.Ticket{Ticket: wire.JSON(ticket), Store: "7"}}
	fetched(t, f)
	if f.asked > 2 || f.says != nil { // each rank asks who has it
		t.Errorf("%d frames by way of the head, %q", f.asked, f.says)
	}
}

// Where the nodes do not reach each other the head passes the bytes on, and that is told once.
func TestFetchByHead(t *testing.T) {
	d, err := listener.Open("b", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Close() // nobody listens there any more
	ticket, err := d.Key().Ticket(0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for why, way := range map[string]wire.Ticket{"connection refused": {Ticket: wire.JSON(ticket)}, "not today": {Err: "not today"}, "": {Head: true}} {
		f := &far{way: way}
		fetched(t, f)
		if f.asked < 3 {
			t.Errorf("%d frames by way of the head", f.asked)
		}
		if why == "" && f.says != nil || why != "" && (len(f.says) != 1 || !strings.Contains(f.says[0], "images of node b come by way of the head: ") || !strings.Contains(f.says[0], why)) {
			t.Errorf("the user is told %q", f.says)
		}
	}
}

// A stream that breaks does not break the restart.
func TestFetchBroken(t *testing.T) {
	d, err := listener.Open("b", map[string]listener.Handler{listener.Files: func(_ rendezvous.Caller, s oob.Stream) { s.Read(make([]byte, 100)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ticket, err := d.Key().Ticket(0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{way: wire.Ticket{Ticket: wire.JSON(ticket), Store: "7"}}
	if fetched(t, f); f.asked < 3 {
		t.Errorf("%d frames by way of the head", f.asked)
	}
}

// fetched starts two ranks whose images are fetched.
func fetched(t *testing.T, f *far) {
	t.Helper()
	b, here, serve := farBench(t, 2, f, func(*wire.Order) {})
	serve(oob.Spawn)
	serve(oob.Spawn)
	for range 2 {
		if o := <-b.f.made; o.Image.String() != filepath.Join(here, "j/h/1/rank-00000.img") {
			t.Errorf("%+v", o)
		} else if _, err := image.Verify(string(o.Image.(image.Path))); err != nil {
			t.Error(err)
		}
	}
	b.over()
}

// A rank whose image cannot be had is told with the node that wrote it.
func TestFetchFails(t *testing.T) {
	b, here, serve := farBench(t, 1, &far{way: wire.Ticket{Head: true}}, func(o *wire.Order) { o.Images[0][0].Digest = strings.Repeat("0", 64) })
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
		"dir": {Kind: store.KindDir, Folder: rawstring.String(dir)}, "node": {Kind: node.Kind, Folder: rawstring.String(dir + "/node")},
		"bad": {Kind: node.Kind, Folder: rawstring.String(bad)}, "new": {Kind: "s4"},
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
		to, written, err := a.writeTo(t.Context(), &oob.CaptureConfig{Store: x.store, Path: rawstring.String(x.path)}, 0)
		file := ""
		if to != nil {
			file = to.String()
		}
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
