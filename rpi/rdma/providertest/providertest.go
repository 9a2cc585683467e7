// Package providertest tests that a provider keeps what package provider promises.
package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"golang.org/x/sys/unix"
)

// Run tests the provider of which open opens a device. What Limits allow less of than the tests need is an error.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{{"opcodes", testOpcodes}, {"failures", testFailures}, {"descriptor", testDescriptor}, {"unmapped", testUnmapped}, {"large", testLarge},
		{"not-ready", testNotReady}, {"early", testEarly}, {"order", testOrder}, {"flush", testFlush}, {"full", testFull}, {"busy", testBusy}} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// end is one side of a connection.
type end struct {
	dev    provider.Device
	domain provider.ProtectionDomain
	queue  provider.CompletionQueue
	pair   provider.QueuePair
	shared provider.SharedReceiveQueue
	memory []byte
	region provider.MemoryRegion
	seen   []provider.Completion
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Open opens a device for a test.
type Open func() (provider.Device, error)

func newEnd(t testing.TB, open Open, shared bool) *end {
	t.Helper()
	e := &end{memory: make([]byte, 1<<16)}
	var err error
	e.dev, err = open()
	check(t, err)
	t.Cleanup(func() { _ = e.dev.Close() })
	e.domain, err = e.dev.AllocDomain()
	check(t, err)
	e.queue, err = e.dev.CreateCompletionQueue(64)
	check(t, err)
	e.region, err = e.domain.Register(e.memory, provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite)
	check(t, err)
	c := provider.QueuePairConfig{SendQueue: e.queue, ReceiveQueue: e.queue, SendDepth: 16, ReceiveDepth: 16, Segments: 3, Inline: 64}
	if shared {
		e.shared, err = e.domain.CreateSharedReceiveQueue(16, 2)
		check(t, err)
		c.Shared, c.ReceiveDepth = e.shared, 0
	}
	e.pair, err = e.domain.CreateQueuePair(c)
	check(t, err)
	return e
}

func connect(t testing.TB, a, b *end) {
	t.Helper()
	for _, e := range []*end{a, b} {
		check(t, e.pair.Modify(provider.Change{To: provider.Init, Access: provider.RemoteRead | provider.RemoteWrite}))
	}
	check(t, a.pair.Modify(provider.Change{To: provider.ReadyToReceive, Peer: b.pair.Address()}))
	check(t, b.pair.Modify(provider.Change{To: provider.ReadyToReceive, Peer: a.pair.Address()}))
	check(t, a.pair.Modify(provider.Change{To: provider.ReadyToSend}))
	check(t, b.pair.Modify(provider.Change{To: provider.ReadyToSend}))
}

func (e *end) at(off, n int) []provider.Segment {
	return []provider.Segment{{Data: e.memory[off : off+n], Key: e.region.LocalKey()}}
}

func (e *end) remote(off int) provider.Remote {
	return provider.Remote{Address: e.region.Base() + uint64(off), Key: e.region.RemoteKey()}
}

func (e *end) send(t testing.TB, r ...provider.SendRequest) {
	t.Helper()
	_, err := e.pair.PostSend(r)
	check(t, err)
}

func (e *end) receive(t testing.TB, r ...provider.ReceiveRequest) {
	t.Helper()
	var err error
	if e.shared != nil {
		_, err = e.shared.PostReceive(r)
	} else {
		_, err = e.pair.PostReceive(r)
	}
	check(t, err)
}

// until polls both ends until the condition holds.
func until(t testing.TB, what string, cond func() bool, ends ...*end) {
	t.Helper()
	for begin := time.Now(); !cond(); {
		for _, e := range ends {
			var buf [4]provider.Completion
			n, err := e.queue.Poll(buf[:])
			check(t, err)
			e.seen = append(e.seen, buf[:n]...)
		}
		if time.Since(begin) > 60*time.Second {
			t.Fatalf("never: %s", what)
		}
	}
}

// testOpcodes tests what each opcode moves and completes, with several segments, immediate values and bytes inline.
func testOpcodes(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, true)
	connect(t, a, b)
	for i := range a.memory {
		a.memory[i] = byte(i * 7)
	}
	b.receive(t, provider.ReceiveRequest{ID: 1, Segments: append(b.at(0, 1000), b.at(2000, 9000)...)})
	a.send(t, provider.SendRequest{ID: 1, Opcode: provider.Send, Flags: provider.Signalled, Segments: append(a.at(0, 1500), a.at(4000, 3000)...)},
		provider.SendRequest{ID: 2, Opcode: provider.Write, Segments: a.at(0, 5000), Remote: b.remote(20000)},
		provider.SendRequest{ID: 3, Opcode: provider.SendImmediate, Flags: provider.Inline, Immediate: 77, Segments: []provider.Segment{{Data: []byte("inline")}}},
		provider.SendRequest{ID: 4, Opcode: provider.WriteImmediate, Flags: provider.Signalled, Immediate: 78, Segments: a.at(100, 10), Remote: b.remote(30000)},
		provider.SendRequest{ID: 5, Opcode: provider.Read, Flags: provider.Signalled, Segments: append(a.at(50000, 2000), a.at(60000, 3000)...), Remote: b.remote(20000)})
	b.receive(t, provider.ReceiveRequest{ID: 2, Segments: b.at(40000, 64)}, provider.ReceiveRequest{ID: 3})
	until(t, "all completed", func() bool { return len(a.seen) == 3 && len(b.seen) == 3 }, a, b)
	var got []string
	for _, c := range append(a.seen, b.seen...) {
		got = append(got, fmt.Sprintln(c.ID, c.Opcode, c.Status, c.Bytes, c.Immediate, c.HasImmediate))
	}
	want := "1 send success 0 0 false\n4 write-imm success 0 0 false\n5 read success 5000 0 false\n" +
		"1 receive success 4500 0 false\n2 receive success 6 77 true\n3 receive-write success 10 78 true\n"
	if got := strings.Join(got, ""); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	message := append(bytes.Clone(a.memory[:1500]), a.memory[4000:7000]...)
	if got := append(bytes.Clone(b.memory[:1000]), b.memory[2000:5500]...); !bytes.Equal(got, message) {
		t.Error("message")
	}
	if !bytes.Equal(b.memory[20000:25000], a.memory[:5000]) || !bytes.Equal(b.memory[30000:30010], a.memory[100:110]) || string(b.memory[40000:40006]) != "inline" {
		t.Error("writes")
	}
	if got := append(bytes.Clone(a.memory[50000:52000]), a.memory[60000:63000]...); !bytes.Equal(got, a.memory[:5000]) {
		t.Error("read")
	}
}

// testFailures tests how requests fail, and that both sides learn of it.
func testFailures(t *testing.T, open Open) {
	for _, c := range []struct {
		name        string
		request     func(a, b *end) provider.SendRequest
		here, there provider.Status
	}{
		{"key of the peer", func(a, b *end) provider.SendRequest {
			return provider.SendRequest{Opcode: provider.Write, Segments: a.at(0, 8), Remote: provider.Remote{Key: 12}}
		}, provider.RemoteAccess, provider.Flushed},
		{"beyond the region", func(a, b *end) provider.SendRequest {
			return provider.SendRequest{Opcode: provider.Read, Segments: a.at(0, 8), Remote: b.remote(1<<16 - 4)}
		}, provider.RemoteAccess, provider.Flushed},
		{"closed at the peer", func(a, b *end) provider.SendRequest {
			r := provider.SendRequest{Opcode: provider.Write, Segments: a.at(0, 8), Remote: b.remote(0)}
			_ = b.region.Close()
			return r
		}, provider.RemoteAccess, provider.Flushed},
		{"own key", func(a, b *end) provider.SendRequest {
			return provider.SendRequest{Opcode: provider.Send, Segments: []provider.Segment{{Data: a.memory[:8], Key: 3}}}
		}, provider.ProtectionError, provider.Success},
		{"too long", func(a, b *end) provider.SendRequest {
			return provider.SendRequest{Opcode: provider.Send, Segments: a.at(0, 9)}
		}, provider.RemoteInvalid, provider.LengthError},
		{"device closed", func(a, b *end) provider.SendRequest {
			_ = b.dev.Close()
			return provider.SendRequest{Opcode: provider.Send, Segments: a.at(0, 8)}
		}, provider.RetryExceeded, provider.Success},
		{"pair closed", func(a, b *end) provider.SendRequest {
			_ = b.pair.Close()
			return provider.SendRequest{Opcode: provider.Send, Segments: a.at(0, 8)}
		}, provider.RetryExceeded, provider.Success},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newEnd(t, open, false), newEnd(t, open, false)
			connect(t, a, b)
			b.receive(t, provider.ReceiveRequest{ID: 1, Segments: b.at(0, 8)})
			r := c.request(a, b)
			a.send(t, r, provider.SendRequest{ID: 9, Opcode: provider.Send})
			ends := []*end{a, b}
			if c.name == "device closed" {
				ends = ends[:1]
			}
			until(t, "failed", func() bool { return len(a.seen) == 2 && (c.there == provider.Success || len(b.seen) == 1) }, ends...)
			if a.seen[0].Status != c.here || a.seen[1].Status != provider.Flushed || a.pair.State() != provider.Failed {
				t.Errorf("here: %v, %v", a.seen[0].Status, a.seen[1].Status)
			}
			if c.there != provider.Success && b.seen[0].Status != c.there {
				t.Errorf("there: %v", b.seen[0].Status)
			}
		})
	}
}

// testDescriptor tests that a process that sleeps on its descriptor misses nothing, also when packets are lost.
func testDescriptor(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	connect(t, a, b)
	const rounds = 20
	play := func(e *end, begins bool) error {
		var buf [4]provider.Completion
		for round := 0; round < rounds; {
			if begins {
				if _, err := e.pair.PostSend([]provider.SendRequest{{Opcode: provider.Send, Flags: provider.Signalled}}); err != nil {
					return err
				}
				round++
			}
			for got := false; !got; {
				check(t, e.queue.Arm(false))
				n, err := e.queue.Poll(buf[:])
				if err != nil {
					return err
				}
				if n == 0 {
					if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(e.queue.Descriptor()), Events: unix.POLLIN}}, 60_000); n == 0 {
						return errors.New("nothing for a minute")
					}
					check(t, e.queue.Acknowledge())
				}
				for _, c := range buf[:n] {
					got = got || c.Opcode == provider.Receive
				}
			}
			if _, err := e.pair.PostReceive(make([]provider.ReceiveRequest, 1)); err != nil {
				return err
			}
			if !begins {
				if _, err := e.pair.PostSend([]provider.SendRequest{{Opcode: provider.Send, Flags: provider.Signalled}}); err != nil {
					return err
				}
				round++
			}
		}
		return nil
	}
	a.receive(t, provider.ReceiveRequest{})
	b.receive(t, provider.ReceiveRequest{})
	done, stop := make(chan error, 1), make(chan struct{})
	go func() {
		err := play(b, false)
		done <- err
		for { // what was lost is sent again
			select {
			case <-stop:
				done <- nil
				return
			default:
				_, _ = b.queue.Poll(nil)
			}
		}
	}()
	check(t, play(a, true))
	check(t, <-done)
	close(stop)
	<-done
}

// testUnmapped tests that memory that is not there is refused.
func testUnmapped(t *testing.T, open Open) {
	d, err := open()
	check(t, err)
	defer d.Close()
	o, err := d.AllocDomain()
	check(t, err)
	m, err := unix.Mmap(-1, 0, 1<<14, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	check(t, err)
	r, err := o.Register(m, provider.LocalWrite)
	check(t, err)
	check(t, r.Close())
	check(t, unix.Munmap(m))
	if _, err := o.Register(m, provider.LocalWrite); !errors.Is(err, provider.ErrUnmapped) {
		t.Error(err)
	}
}
