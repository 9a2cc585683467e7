package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
)

// lose has a node fall silent, and waits until it is given up.
func (w *world) lose(f *Fleet, i int) {
	w.t.Helper()
	close(w.nodes[address(i)].stop)
	w.eventually("lost", func() bool { s := f.States()[i].State; return s == "lost" || s == "fenced" })
}

// join has nodes join that the job has, and returns what was told.
func join(f *Fleet, which ...int) (told string, err error) {
	var names []string
	for _, i := range which {
		names = append(names, address(i))
	}
	return joinAll(f, names, nil)
}

func joinAll(f *Fleet, names []string, more []hosts.Node) (told string, err error) {
	var mu sync.Mutex
	err = f.Join(names, more, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		told += text + "\n"
	})
	return told, err
}

// A node that was lost joins when it is certain that nothing of it acts any more, and not before. It is a spare, and
// answers the next loss.
func TestJoin(t *testing.T) {
	w := newWorld(t, 3)
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1] 1:[2 3]")
	stopped := lease.Now()
	w.lose(f, 1)
	m := w.boot(1)
	if told, err := join(f); err != nil || !strings.Contains(told, "has joined: 4 CPUs, a spare") {
		t.Fatalf("%q, %v", told, err)
	}
	// Its last grant was at most one beat before it fell silent.
	if waited := m.started - stopped; waited < (terms.L-2*terms.H).Milliseconds()+1000 {
		t.Errorf("it was started after %d ms, the lease is %v", waited, terms.L)
	}
	if s := f.States()[1]; s.State != "up" || s.Why != "" || !w.told("node 203.0.113.2 has joined") {
		t.Errorf("it is %+v", s)
	}
	begin(t, f, 2, "0:[0 1] 1:[2 3]") // its ranks had found no other place yet
	w.lose(f, 1)
	begin(t, f, 3, "0:[0 1] 2:[2 3]")
	w.eventually("fenced", func() bool { return f.States()[1].State == "fenced" })
	w.boot(1)
	if _, err := join(f, 1); err != nil {
		t.Fatal(err)
	}
	begin(t, f, 4, "0:[0 1] 2:[2 3]")
	w.lose(f, 2)
	begin(t, f, 5, "0:[0 1] 1:[2 3]")
	if told, err := join(f, 0, 1); err != nil || strings.Count(told, "is up already") != 2 {
		t.Errorf("those that are up: %q, %v", told, err)
	}
}

// A node that the job never had joins with its slots. One that does not come up may be tried again.
func TestJoinNew(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(4, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1] 1:[2 3]")
	fresh := []hosts.Node{{Name: address(2), Slots: 2, SlotsGiven: true}}
	w.boot(2).refuses = errors.New("no such host")
	if _, err := joinAll(f, nil, fresh); err == nil || err.Error() != "node 203.0.113.3: no such host" {
		t.Errorf("a node that is not there: %v", err)
	}
	if s := f.States(); len(s) != 3 || s[2].State != "failed" || s[2].Why != "no such host" {
		t.Errorf("states: %+v", s)
	}
	w.boot(2)
	if _, err := join(f); err != nil {
		t.Fatal(err)
	}
	if told, err := join(f); err != nil || told != "all nodes of the job are up\n" {
		t.Errorf("once more: %q, %v", told, err)
	}
	if names := f.Names(); !slices.Contains(names, address(2)) {
		t.Errorf("nodes %q", names)
	}
	w.lose(f, 0)
	begin(t, f, 2, "1:[2 3] 2:[0 1]")
}

// Ranks that -shrink-to-fit has put on other nodes go to one that joins, with the next life.
func TestJoinRelieves(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(3, hosts.Rules{Shrink: true, Oversubscribe: true})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1] 1:[2]")
	w.lose(f, 0)
	begin(t, f, 2, "1:[0 1 2]")
	w.boot(0)
	if _, err := join(f, 0); err != nil {
		t.Fatal(err)
	}
	if s := f.States(); len(s[0].Ranks) != 0 || len(s[1].Ranks) != 3 {
		t.Errorf("a life that is under way has changed: %+v", s)
	}
	begin(t, f, 3, "0:[0 1] 1:[2]")
}

// Who was left out, alive, is used again.
func TestJoinLeft(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(1, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0]")
	f.Leave(0, errors.New("it is cut off from node 1"))
	started := w.nodes[address(0)].started
	if told, err := join(f); err != nil || !strings.Contains(told, "node 203.0.113.1 has joined") || w.nodes[address(0)].started != started {
		t.Errorf("%q, %v", told, err)
	}
	begin(t, f, 2, "0:[0]")
}

func TestJoinRefuses(t *testing.T) {
	w := newWorld(t, 3)
	w.terms = lease.Terms{L: time.Hour, H: terms.H}
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1] 1:[2 3]")
	refuses := func(what, want string, names []string, more ...hosts.Node) {
		t.Helper()
		if _, err := joinAll(f, names, more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	refuses("a node of others", "nowhere is no node of the job, which has 203.0.113.1, 203.0.113.2, 203.0.113.3: a new one joins with -hosts nowhere", []string{"nowhere"})
	for i, v := range []struct {
		spoil func(m *machine)
		want  string
	}{
		{func(m *machine) { m.info.Machine = "boot0" }, "it is the machine that is also named 203.0.113.1"},
		{func(m *machine) { m.info.Machine = "own" }, "it is the head's own machine"},
		{func(m *machine) { m.info.Digest = "e" }, "its gorun is another one"},
		{func(m *machine) { m.deaf = true }, "the keeper has not come home"},
	} {
		v.spoil(w.boot(4 + i))
		refuses(fmt.Sprint(i), v.want, nil, hosts.Node{Name: address(4 + i)})
	}
	w.nodes[address(1)].conn.Close() // its keeper is killed
	w.eventually("lost", func() bool { return f.States()[1].State == "lost" })
	w.boot(9).info.Machine = "boot1"
	refuses("a machine that may still act, under another name", "also named 203.0.113.2, where ranks may still act", nil, hosts.Node{Name: address(9)})
	begin(t, f, 2, "0:[0 1] 2:[2 3]")

	// Nor is it brought up under its own before its lease is over. The end of the job ends that.
	m := w.boot(1)
	waits, over := make(chan string, 1), make(chan error, 1)
	go func() { over <- f.Join([]string{address(1)}, nil, func(text string) { waits <- text }) }()
	if text := <-waits; !strings.Contains(text, "node 203.0.113.2: waiting until what ran there has certainly ended: 1h0m") {
		t.Errorf("told: %s", text)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, errClosed) || m.started != 0 {
		t.Errorf("it ends with %v", err)
	}
}

// The end of the job ends a join.
func TestJoinEnds(t *testing.T) {
	w := newWorld(t, 2)
	f, err := w.fleet(2, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1]")
	m := w.boot(2)
	m.mute = func() {}
	over := make(chan error, 1)
	go func() {
		_, err := joinAll(f, nil, []hosts.Node{{Name: address(2)}})
		over <- err
	}()
	w.eventually("starting", func() bool { s := f.States(); return len(s) == 3 && s[2].State == "starting" })
	if _, err := join(f, 2); err == nil || !strings.Contains(err.Error(), "is being brought up already") {
		t.Errorf("joining twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, errClosed) {
		t.Errorf("it says %v", err)
	}
	if _, err := join(f, 0); !errors.Is(err, errClosed) {
		t.Errorf("afterwards: %v", err)
	}
}
