package fleet

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
)

// The way to a node is a ticket to its listener, which is opened once. Its own addresses come behind the one by which the
// head knows it.
func TestWay(t *testing.T) {
	w := newWorld(t, 2)
	secret := bytes.Repeat([]byte{7}, 32)
	w.nodes[address(1)].door = listener.Opened{Key: &listener.Key{Name: "d", Addresses: []string{"10.9.9.9:4711"}, Secret: secret}}
	w.nodes[address(0)].door = listener.Opened{Err: "no port is free"}
	f, err := w.fleet(4, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0 1] 1:[2 3]")
	for _, folder := range []string{"/images", "/images", ""} {
		ticket, store, err := f.Ticket(t.Context(), agents[0], 0, 1, address(1), folder)
		if err != nil || (store == "") != (folder == "") || ticket.Node != 0 || ticket.Agent != 0 || ticket.Life != 1 {
			t.Fatalf("%v, %q, %v", ticket, store, err)
		}
		if len(ticket.Addresses) != 2 || ticket.Addresses[1] != "10.9.9.9:4711" {
			t.Errorf("it is called at %v", ticket.Addresses)
		}
		if want, err := (&listener.Key{Name: "d", Secret: secret}).Ticket(0, 0, 1); err != nil || want.Token != ticket.Token || want.Fingerprint != ticket.Fingerprint {
			t.Errorf("the ticket opens another door: %v", err)
		}
	}
	m := w.nodes[address(1)]
	m.mu.Lock()
	if m.doors != 1 || !slices.Equal(m.folders, []string{"/images"}) {
		t.Errorf("asked %d times, told of %q", m.doors, m.folders)
	}
	m.mu.Unlock()
	if _, _, err := f.Ticket(t.Context(), agents[1], 1, 1, address(0), ""); err == nil || !strings.Contains(err.Error(), "no port is free") {
		t.Errorf("a node without a door: %v", err)
	}
	if _, _, err := f.Ticket(t.Context(), agents[1], 1, 1, "nowhere", ""); err == nil {
		t.Error("a way to nowhere")
	}
}

// Nobody waits for ever for a keeper that does not answer.
func TestNoWay(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes[address(0)].shut = true
	f, err := w.fleet(1, hosts.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	agents := begin(t, f, 1, "0:[0]")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := f.Ticket(ctx, agents[0], 0, 1, address(0), ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	w.nodes[address(0)].conn.Close()
	if _, _, err := f.Ticket(t.Context(), agents[0], 0, 1, address(0), ""); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestPreferred(t *testing.T) {
	for _, x := range []struct{ all, host, want string }{
		{"a:1 b:1", "b", "b:1 a:1"},
		{"a:1 b:1", "a", "a:1 b:1"},
		{"a:1 b:1", "c", "c:1 a:1 b:1"},
		{"[fd00::1]:1 b:1", "fd00::2", "[fd00::2]:1 [fd00::1]:1 b:1"},
		{"a:1", "", "a:1"},
		{"", "c", ""},
	} {
		if got := strings.Join(preferred(strings.Fields(x.all), x.host), " "); got != x.want {
			t.Errorf("%s at %s: %s", x.all, x.host, got)
		}
	}
}
