package listener

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// open opens a door on which "echo" answers what it hears, once the caller has been noted.
func open(t *testing.T, more map[string]Handler) (*Listener, <-chan rendezvous.Caller) {
	t.Helper()
	callers := make(chan rendezvous.Caller, 100)
	handlers := map[string]Handler{"echo": func(c rendezvous.Caller, s oob.Stream) {
		callers <- c
		io.Copy(s, s)
	}}
	for word, f := range more {
		handlers[word] = f
	}
	d, err := Open("a door", handlers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, callers
}

// invite is a ticket that leads over loopback.
func invite(t *testing.T, d *Listener, node, agent, life int) rendezvous.Ticket {
	t.Helper()
	k := *d.Key()
	k.Addresses = loopback(d)
	ticket, err := k.Ticket(node, agent, life)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// called calls for something, and closes the stream with the test.
func called(t *testing.T, ticket rendezvous.Ticket, what string) oob.Stream {
	t.Helper()
	s, err := Call(t.Context(), ticket, what)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ends reads a stream to its end and returns what came.
func ends(t *testing.T, s oob.Stream) string {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(time.Minute))
	p, err := io.ReadAll(s)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the stream has not ended")
	}
	return string(p)
}

// A caller has a stream with the handler that it asks for, which is told who it is.
func TestCall(t *testing.T) {
	d, callers := open(t, nil)
	s := called(t, invite(t, d, 3, 5, 2), "echo")
	if c := <-callers; c.Node != 3 || c.Agent != 5 || c.Life != 2 {
		t.Errorf("the caller is %+v", c)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 5)
	if _, err := io.ReadFull(s, p); err != nil || string(p) != "hello" {
		t.Errorf("%q, %v", p, err)
	}
	again := called(t, invite(t, d, 3, 5, 2), "echo")
	<-callers
	again.Close()
}

// The end of a door is the end of its streams, also of those that have not said what for.
func TestClose(t *testing.T) {
	d, callers := open(t, nil)
	s := called(t, invite(t, d, 1, 0, 1), "echo")
	<-callers
	silent, err := rendezvous.Call(t.Context(), invite(t, d, 1, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > wordWithin {
		t.Errorf("closing took %v", took)
	}
	if got := ends(t, s) + ends(t, silent); got != "" {
		t.Errorf("heard %q", got)
	}
	if _, err := Call(t.Context(), invite(t, d, 1, 0, 1), "echo"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a closed door: %v", err)
	}
}

// Words that no handler has, and what is no word, end the stream.
func TestWord(t *testing.T) {
	d, callers := open(t, nil)
	s := called(t, invite(t, d, 1, 0, 1), "ech")
	if got := ends(t, s); got != "" {
		t.Errorf("heard %q", got)
	}
	for _, said := range []string{"\x00", "\x05echo!", "\xff" + strings.Repeat("x", 255), "\x21" + strings.Repeat("x", 33)} {
		s, err := rendezvous.Call(t.Context(), invite(t, d, 1, 0, 1))
		if err != nil {
			t.Fatal(err)
		}
		s.Write([]byte(said))
		if got := ends(t, s); got != "" {
			t.Errorf("%q: heard %q", said, got)
		}
		s.Close()
	}
	for _, word := range []string{"", strings.Repeat("x", mostWord+1)} {
		if _, err := Call(t.Context(), invite(t, d, 1, 0, 1), word); err == nil {
			t.Errorf("%q is a word", word)
		}
	}
	if len(callers) > 0 {
		t.Errorf("let in: %+v", <-callers)
	}
}

// A ticket opens one door, as one caller.
func TestTicket(t *testing.T) {
	d, callers := open(t, nil)
	other, _ := open(t, nil)
	changed := func(change func(*rendezvous.Ticket)) rendezvous.Ticket {
		ticket := invite(t, d, 1, 2, 3)
		change(&ticket)
		return ticket
	}
	theirs := invite(t, other, 1, 2, 3)
	for name, ticket := range map[string]rendezvous.Ticket{
		"another caller's":              changed(func(t *rendezvous.Ticket) { t.Agent = 1 }),
		"of another life":               changed(func(t *rendezvous.Ticket) { t.Life = 4 }),
		"of another node":               changed(func(t *rendezvous.Ticket) { t.Node = 0 }),
		"of another door":               changed(func(t *rendezvous.Ticket) { t.Token = theirs.Token }),
		"of another door, to this":      changed(func(t *rendezvous.Ticket) { *t = theirs; t.Addresses = loopback(d) }),
		"its key of another, not token": changed(func(t *rendezvous.Ticket) { t.Fingerprint = theirs.Fingerprint }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if s, err := Call(ctx, ticket, "echo"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("a ticket %s opens it: %v", name, err)
			s.Close()
		}
		cancel()
	}
	if len(callers) > 0 {
		t.Errorf("let in: %+v", <-callers)
	}
}

// loopback is the address of a door there.
func loopback(d *Listener) []string {
	_, port, _ := net.SplitHostPort(d.Key().Addresses[0])
	return []string{net.JoinHostPort("127.0.0.1", port)}
}

// Strangers get no byte in and take no memory, and callers come in beside them. Package rendezvous has more of them.
func TestStrangers(t *testing.T) {
	d, callers := open(t, nil)
	address := loopback(d)[0]
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var idle []net.Conn
	for i := range 4 * unproved {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
		switch i % 4 {
		case 1: // garbage
			p := make([]byte, 64<<10)
			rand.Read(p)
			c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			c.Write(p)
		case 2: // a frame of the streams behind the proof
			p, _ := oob.Append(nil, &oob.Msg{Kind: oob.Files, Data: bytes.Repeat([]byte{1}, 1000)})
			c.Write(p)
		case 3: // TLS by somebody without a ticket
			go tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"gorun-home/1"}}).Write([]byte("\x04echo"))
		}
	}
	s := called(t, invite(t, d, 1, 0, 1), "echo")
	<-callers
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d strangers take %d bytes", len(idle), grown)
	}
	s.Close()
	if len(callers) > 0 {
		t.Errorf("let in: %+v", <-callers)
	}
}

// A store is read through a door, and nothing that is not offered.
func TestFiles(t *testing.T) {
	folder := t.TempDir()
	l, err := node.OpenLocal(folder)
	if err == nil {
		err = l.Begin(t.Context(), "j/1")
	}
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 3<<20+17)
	rand.Read(want)
	w, err := l.Create(t.Context(), "j/1", "p", store.Options{NoDirect: true})
	if err == nil {
		_, err = w.WriteAt(want, 0)
	}
	if err == nil {
		err = w.Commit(int64(len(want)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "j/1/p")); err != nil {
		t.Fatal(err)
	}
	d, _ := open(t, map[string]Handler{Files: Offer(func(name string) remote.Served {
		if name == "0" {
			return node.Offer(folder)
		}
		return nil
	})})
	client, closed := Read(called(t, invite(t, d, 1, 0, 1), Files))
	r, err := client.Store("0").Open(t.Context(), "j/1", "p")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, r.Size())
	if n, err := r.ReadAt(got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, err := client.Store("1").Open(t.Context(), "j/1", "p"); err == nil {
		t.Error("a store that is not offered is read")
	}
	if _, err := client.Store("0").Open(t.Context(), "../..", "p"); !errors.Is(err, store.ErrName) {
		t.Errorf("out of the folder: %v", err)
	}
	if err := client.Store("0").Remove(t.Context(), "j/1"); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("removed through a door: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "j/1/p")); err != nil {
		t.Error(err)
	}
	closed()
	if _, err := r.ReadAt(got, 0); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("after its end: %v", err)
	}
}

// A caller that breaks the protocol of files is cut off.
func TestFilesGarbage(t *testing.T) {
	d, _ := open(t, map[string]Handler{Files: Offer(func(string) remote.Served { return nil })})
	other, err := oob.Append(nil, &oob.Msg{Kind: oob.KillAll})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := oob.Append(nil, &oob.Msg{Kind: oob.Files, Data: []byte("nothing of package remote")})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{other, wrong, bytes.Repeat([]byte{0xff}, 100)} {
		s := called(t, invite(t, d, 1, 0, 1), Files)
		s.Write(p)
		if got := ends(t, s); got != "" {
			t.Errorf("heard %q", got)
		}
	}
}
