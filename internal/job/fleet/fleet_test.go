package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// begin starts the agents of a life and checks which ranks they have.
func begin(t *testing.T, f *Fleet, life int, want string) []*Agent {
	t.Helper()
	agents, err := f.Begin(context.Background(), life)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range agents {
		got = append(got, fmt.Sprintf("%d:%v", a.Node, a.Ranks))
	}
	if s := strings.Join(got, " "); s != want {
		t.Fatalf("life %d: %s, want %s", life, s, want)
	}
	return agents
}

func TestLives(t *testing.T) {
	w := newWorld(t, 3)
	w.nodes[address(1)].info.Rack = "s1"
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3]")
	a := agents[1]
	w.eventually("known by its pid", func() bool { return a.PID() == 4711 })
	if a.Host() != address(1) || a.Address() == "" || a.Own {
		t.Errorf("agent %q %q %v", a.Host(), a.Address(), a.Own)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err == nil || err.Error() != "killed" {
		t.Errorf("its end: %v", err)
	}
	if _, err := a.Stream().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its stream: %v", err)
	}
	begin(t, f, 2, "0:[0 1] 1:[2 3]")
	for i, want := range []string{"up", "up", "up"} {
		if s := f.States()[i]; s.State != want || s.CPUs != 4 {
			t.Errorf("node %d: %+v", i, s)
		}
	}
	if !f.Remote() {
		t.Error("no node is remote")
	}
	if of := f.Racks(); len(of) != 1 || of[address(1)] != "s1" {
		t.Errorf("racks %v", of)
	}
}

// A node that falls silent is lost. Its agents' streams end at once, and they are gone when its
// lease is certainly over, not before. A spare takes its ranks, and then there is none.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := begin(t, f, 1, "0:[0 1] 1:[2 3]")[1]
	began := time.Now()
	silent := w.nodes[address(1)]
	close(silent.stop)
	if _, err := a.Stream().Read(make([]byte, 1)); err == nil {
		t.Error("its stream goes on")
	}
	if err := a.Wait(); !errors.Is(err, ErrLost) {
		t.Errorf("its end: %v", err)
	}
	gone := lease.Now()
	silent.mu.Lock()
	asked := silent.asked
	silent.mu.Unlock()
	if asked == 0 || gone-asked < terms.Fence().Milliseconds() {
		t.Errorf("gone %d ms after the lease that was granted last was asked for; its fence is %v", gone-asked, terms.Fence())
	}
	if s := f.States()[1]; s.State != "fenced" || !strings.Contains(s.Why, "renewed") {
		t.Errorf("it is %+v", s)
	}
	if _, any := f.SilentSince(time.Now()); any {
		t.Error("a node fell silent that was lost before")
	}
	if at, any := f.SilentSince(began.Add(-terms.H)); !any || at.After(time.Now().Add(-terms.L/2)) {
		t.Errorf("silent since %v ago, %v; a lease is %v", time.Since(at), any, terms.L)
	}
	if !w.told("is silent for") || !w.told("is lost") {
		t.Errorf("said was %q", w.said)
	}
	agents := begin(t, f, 2, "0:[0 1] 2:[2 3]")
	w.nodes[address(0)].conn.Close() // a keeper's end
	if err := agents[0].Wait(); !errors.Is(err, ErrLost) {
		t.Errorf("the end of an agent whose keeper has ended: %v", err)
	}
	if err := f.CanPlace(); !errors.Is(err, hosts.ErrNodes) || !strings.Contains(err.Error(), address(0)) {
		t.Errorf("without a spare: %v", err)
	}
	if agents, err := f.Begin(context.Background(), 3); !errors.Is(err, hosts.ErrNodes) || len(agents) > 0 {
		t.Errorf("a life without a spare: %v, %v", agents, err)
	}
}

// A node whose keeper leaves in order is given up at once, and fenced by the keeper's word: nobody waits for its lease,
// which is longer than this test. Without the last word it counts for nothing.
func TestLeaving(t *testing.T) {
	w := newWorld(t, 4)
	w.terms = lease.Terms{L: time.Hour, H: terms.H}
	f, err := w.fleet(4, hosts.Rules{Spares: 2})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3]")
	left := w.nodes[address(1)].leave(t)
	if err := agents[1].Wait(); err == nil || err.Error() != "killed" {
		t.Errorf("the end of its agent: %v", err)
	}
	if _, err := agents[1].Stream().Read(make([]byte, 1)); err == nil {
		t.Error("its stream goes on")
	}
	if s := f.States()[1]; s.State != "lost" || !strings.Contains(s.Why, "told to leave: ended by a signal: SIGTERM") || !w.told("node 203.0.113.2 leaves the job") {
		t.Errorf("before its last word it is %+v", s)
	}
	left()
	w.eventually("fenced", func() bool { return f.States()[1].State == "fenced" })
	agents = begin(t, f, 2, "0:[0 1] 2:[2 3]")
	w.nodes[address(0)].leave(t)()
	w.nodes[address(2)].leave(t)()
	w.eventually("fenced", func() bool { s := f.States(); return s[0].State == "fenced" && s[2].State == "fenced" })
	if err := f.CanPlace(); !errors.Is(err, hosts.ErrNodes) || strings.Contains(err.Error(), "cut off") {
		t.Errorf("when all leave: %v", err)
	}
	w.boot(1)
	if _, err := join(f, 1); err != nil {
		t.Error(err)
	}
}

// A head that has lost most nodes at once does not go on with what is left: it is probably cut off.
func TestMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	f, err := w.fleet(6, hosts.Rules{Spares: 1, Shrink: true, Oversubscribe: true})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3] 2:[4 5]")
	lose := func(i int) {
		w.nodes[address(i)].conn.Close()
		if err := agents[i].Wait(); !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	}
	lose(0)
	lose(1)
	if err := f.CanPlace(); err != nil {
		t.Errorf("with half of the nodes, this one among them: %v", err)
	}
	lose(2)
	if err := f.CanPlace(); !errors.Is(err, hosts.ErrNodes) || !strings.Contains(err.Error(), "3 of 5 nodes were lost at once") {
		t.Errorf("with none: %v", err)
	}
}

// Spares count: who hears them is not cut off from most. Those that are lost, too, count as well.
func TestMostWithSpares(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	f, err := w.fleet(4, hosts.Rules{Spares: 2, Shrink: true, Oversubscribe: true})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3]")
	for i := range 2 {
		w.nodes[address(i)].conn.Close()
		if err := agents[i].Wait(); !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	}
	if err := f.CanPlace(); err != nil {
		t.Errorf("with two spares and this node of five: %v", err)
	}
	w.nodes[address(2)].conn.Close()
	for f.States()[2].State == "up" {
		time.Sleep(time.Millisecond)
	}
	if err := f.CanPlace(); !errors.Is(err, hosts.ErrNodes) || !strings.Contains(err.Error(), "3 of 5 nodes were lost at once") {
		t.Errorf("with one spare and this node of five: %v", err)
	}
}

// A node that is left out lives on and gets no ranks.
func TestLeave(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(1, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0]")
	f.Leave(0, errors.New("it is cut off from node 1"))
	begin(t, f, 2, "1:[0]")
	if s := f.States()[0]; s.State != "up" || s.Why != "it is cut off from node 1" {
		t.Errorf("it is %+v", s)
	}
}

func TestUnusable(t *testing.T) {
	for name, v := range map[string]struct {
		spoil func(w *world)
		want  string
	}{
		"refused":    {func(w *world) { w.nodes[address(1)].refuses = errors.New("no such host") }, "node 203.0.113.2: no such host"},
		"deaf":       {func(w *world) { w.nodes[address(1)].deaf = true }, "node 203.0.113.2: the keeper has not come home"},
		"arch":       {func(w *world) { w.nodes[address(1)].info.Arch = "riscv64" }, "another architecture (riscv64)"},
		"digest":     {func(w *world) { w.nodes[address(1)].info.Digest = "e" }, "its gorun is another one"},
		"no account": {func(w *world) { w.nodes[address(1)].info = wire.NodeInfo{} }, "does not describe it"},
		"own":        {func(w *world) { w.nodes[address(1)].info.Machine = "own" }, "it is the head's own machine"},
		"twins":      {func(w *world) { w.nodes[address(1)].info.Machine = "boot0" }, "it is the machine that is also named 203.0.113.1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			v.spoil(w)
			if _, err := w.fleet(4, hosts.Rules{}); err == nil || !strings.Contains(err.Error(), v.want) {
				t.Errorf("without a spare: %v", err)
			}
			w = newWorld(t, 3)
			v.spoil(w)
			f, err := w.fleet(4, hosts.Rules{Spares: 1})
			if err != nil || !w.told(v.want) {
				t.Fatalf("with a spare: %v, said was %q", err, w.said)
			}
			begin(t, f, 1, "0:[0 1] 2:[2 3]")
		})
	}
}

// A node that does not see the folder of snapshots is refused by name, at the start and when it joins. Nothing of the
// look is left.
func TestShared(t *testing.T) {
	top := t.TempDir()
	left := func() {
		t.Helper()
		if all, err := os.ReadDir(top); err != nil || len(all) > 0 {
			t.Errorf("left: %v, %v", all, err)
		}
	}
	w := newWorld(t, 2)
	w.share = filepath.Join(top, "me", "snapshots")
	w.nodes[address(1)].blind = true
	if _, err := w.fleet(4, hosts.Rules{}); err == nil || !strings.Contains(err.Error(), "node 203.0.113.2: it does not see the folder for snapshots (no such file): name one") {
		t.Errorf("without a spare: %v", err)
	}
	left()
	w = newWorld(t, 3)
	w.share = filepath.Join(top, "me", "snapshots")
	w.nodes[address(1)].blind = true
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil || !w.told("does not see the folder") {
		t.Fatalf("with a spare: %v, said was %q", err, w.said)
	}
	begin(t, f, 1, "0:[0 1] 2:[2 3]")
	w.boot(3).blind = true
	if _, err := joinAll(f, nil, []hosts.Node{{Name: address(3)}}); err == nil || !strings.Contains(err.Error(), "it does not see the folder") {
		t.Errorf("a blind node joins: %v", err)
	}
	if _, err := join(f, 3); err == nil || !strings.Contains(err.Error(), "it does not see the folder") {
		t.Errorf("once more: %v", err)
	}
	w.boot(4)
	if _, err := joinAll(f, nil, []hosts.Node{{Name: address(4)}}); err != nil {
		t.Error(err)
	}
	left()
}

// The user may not want to wait for a keeper that never comes.
func TestGivenUp(t *testing.T) {
	w := newWorld(t, 2)
	why := errors.New("the user does not want it any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.ctx = ctx
	w.nodes[address(1)].mute = func() { cancel(why) }
	if _, err := w.fleet(1, hosts.Rules{}); !errors.Is(err, why) {
		t.Errorf("it says %v", err)
	}
	<-w.nodes[address(1)].ended
}

// A node that does not come up is not waited for when spares suffice.
func TestGrace(t *testing.T) {
	w := newWorld(t, 3)
	w.nodes[address(1)].mute = func() {}
	w.grace = 10 * time.Millisecond
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil || !w.told("node 203.0.113.2: ") || !w.told("after enough others were") {
		t.Fatalf("%v, said was %q", err, w.said)
	}
	begin(t, f, 1, "0:[0 1] 2:[2 3]")
}

func TestProvide(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(4, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3]")
	program := bytes.Repeat([]byte("0123456789abcdef"), pieceSize/8+77)
	paths, imager, err := f.Provide(t.Context(), agents, wire.Provision{Program: "/p", Imager: "x", Size: int64(len(program))}, bytes.NewReader(program))
	if err != nil || !slices.Equal(paths, []string{"/copy", "/copy"}) {
		t.Fatalf("%v, %v", paths, err)
	}
	if imager == nil || !strings.Contains(imager.Error(), "node 203.0.113.2: no ptrace") {
		t.Errorf("its back-end: %v", imager)
	}
	for name, m := range w.nodes {
		if !bytes.Equal(m.got, program) {
			t.Errorf("%s has another program", name)
		}
	}
	if _, _, err := f.Provide(t.Context(), agents, wire.Provision{}, bytes.NewReader(nil)); err == nil || !strings.Contains(err.Error(), "node 203.0.113.1: the disk is full") {
		t.Errorf("a full disk: %v", err)
	}
}

// Who calls with a ticket and is not expected is not let in.
func TestUnexpected(t *testing.T) {
	w := newWorld(t, 1)
	f, err := w.fleet(1, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{info: wire.NodeInfo{Machine: "again"}, stop: make(chan struct{}), agents: map[uint64]oob.Stream{}}
	ended := make(chan error, 1)
	go func() { ended <- m.keep(f.home.Ticket(0, -1, 0)) }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a second keeper of one node is heard")
	}
	begin(t, f, 1, "0:[0]")
}

// Nodes are given up for the sake of those that are up only as long as these suffice: one of them may be lost meanwhile.
func TestGraceOfLost(t *testing.T) {
	w := newWorld(t, 3)
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	up, giveUp := context.WithCancelCause(t.Context())
	defer giveUp(nil)
	lost := func(is bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.placed, f.nodes[1].out, f.nodes[2].out = nil, true, is
	}
	lost(true)
	if f.enough(up, giveUp); up.Err() != nil {
		t.Errorf("two of three are lost: %v", context.Cause(up))
	}
	lost(false)
	if f.enough(up, giveUp); up.Err() == nil {
		t.Error("two are enough")
	}
}
