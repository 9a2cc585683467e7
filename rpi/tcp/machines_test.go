package tcp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// machine is a rank in a network namespace of its own. A thread that never leaves the namespace does all for it.
type machine struct {
	t     *testing.T
	m     *Module
	s     *moduletest.Sink
	calls chan func()
	tid   int
	said  map[int][]time.Duration // what Suspect was told, by peer
	addr  []byte
}

func newMachine(t *testing.T) *machine {
	if os.Getuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install iproute2 and nftables", err)
		}
	}
	x := &machine{t: t, calls: make(chan func()), said: map[int][]time.Duration{}}
	up := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the namespace with it
		err := unix.Unshare(unix.CLONE_NEWNET)
		x.tid = unix.Gettid()
		up <- err
		for f := range x.calls {
			f()
		}
	}()
	t.Cleanup(func() { close(x.calls) })
	if err := <-up; err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	x.sh("ip link set lo up")
	return x
}

// do calls f in the namespace. It must not end the test.
func (x *machine) do(f func()) {
	done := make(chan struct{})
	x.calls <- func() { f(); close(done) }
	<-done
}

// sh runs commands in the namespace, one a line.
func (x *machine) sh(script string) {
	x.t.Helper()
	for line := range strings.Lines(script) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		var out []byte
		var err error
		x.do(func() { out, err = exec.Command(args[0], args[1:]...).CombinedOutput() })
		if err != nil {
			x.t.Skipf("%s: %v: %s", line, err, out)
		}
	}
}

// cable joins two machines by another network, the k-th: 10.7k.0.0/24 and fd7k::/64.
func cable(a, b *machine, k int) {
	a.t.Helper()
	a.sh(fmt.Sprintf("ip link add e%d type veth peer name e%d netns %d", k, k, b.tid))
	for i, x := range []*machine{a, b} {
		x.sh(fmt.Sprintf(`ip address add 10.7%[1]d.0.%[2]d/24 dev e%[1]d
			ip address add fd7%[1]d::%[2]d/64 dev e%[1]d nodad
			ip link set e%[1]d up`, k, i+1))
	}
}

// drop loses everything that arrives over the named interfaces.
func (x *machine) drop(names ...string) {
	x.t.Helper()
	x.sh(`nft add table inet cut
		nft add chain inet cut in { type filter hook input priority 0 ; }`)
	for _, name := range names {
		x.sh("nft add rule inet cut in iifname " + name + " drop")
	}
}

func (x *machine) heal() { x.t.Helper(); x.sh("nft delete table inet cut") }

// start starts the module, as rank i of n.
func (x *machine) start(i, n int, change ...func(*rpi.Env)) {
	x.t.Helper()
	e := env(i, n)
	x.s = newSink(n)
	e.Sink, e.Wide = x.s, true
	e.Suspect = func(peer int, silent time.Duration) { x.said[peer] = append(x.said[peer], silent) }
	for _, f := range change {
		f(&e)
	}
	x.m = New()
	var err error
	x.do(func() { x.addr, err = x.m.Start(e) })
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { x.do(func() { x.m.Close() }) })
}

// meet starts machines as ranks 0, 1 ... and has them meet.
func meet(all []*machine, change ...func(*rpi.Env)) {
	var addrs [][]byte
	for i, x := range all {
		x.t.Helper()
		x.start(i, len(all), change...)
		addrs = append(addrs, x.addr)
	}
	for _, x := range all {
		var err error
		if x.do(func() { err = x.m.Peers(addrs) }); err != nil {
			x.t.Fatal(err)
		}
	}
}

// until polls the machines until cond holds.
func until(t *testing.T, what string, cond func() bool, polled ...*machine) {
	t.Helper()
	for begin := time.Now(); ; {
		for _, x := range polled {
			x.do(func() {
				for x.m.Poll() {
				}
				x.m.Wait(time.Millisecond)
			})
		}
		if cond() {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

// forgive forgets what was said so far: a network that has just come up loses first packets.
func (x *machine) forgive() {
	clear(x.said)
	for _, p := range x.m.peers {
		if p != nil {
			p.suspected = false
		}
	}
}

// send sends one frame from x to peer, once it is taken.
func (x *machine) send(peer, tag, n int, polled ...*machine) {
	x.t.Helper()
	h := eager(tag, n)
	until(x.t, "taken", func() (ok bool) {
		x.do(func() { ok = x.m.Send(peer, &h, pattern(tag, n), 0, false) != rpi.Full })
		return ok
	}, polled...)
}

// over is the peer's address of the only connection.
func (x *machine) over() string {
	if len(x.m.conns) != 1 {
		return fmt.Sprintf("%d connections", len(x.m.conns))
	}
	ip, _ := peerOf(x.m.conns[0].fd)
	return ip.String()
}

func twoMachines(t *testing.T, networks int) (a, b *machine) {
	t.Helper()
	a, b = newMachine(t), newMachine(t)
	for k := range networks {
		cable(a, b, k)
	}
	return a, b
}

// Two machines on two networks, IPv4 and IPv6, use the network that they are told to. Each also has a bridge of its
// own with the address of the other's, and one that no name betrays.
func TestBetweenMachines(t *testing.T) {
	t.Parallel()
	for networks, want := range map[string]string{
		"": "10.70.0.2", "10.71.0.0/24": "10.71.0.2", "10.99.0.0/16,e1,10.70.0.0/24": "10.71.0.2", "fd71::/64": "fd71::2",
	} {
		t.Run("networks="+networks, func(t *testing.T) {
			a, b := twoMachines(t, 2)
			for _, x := range []*machine{a, b} {
				x.sh(`ip link add docker0 type veth peer name build
					ip address add 172.17.0.1/16 dev docker0
					ip link set docker0 up
					ip address add 172.18.0.1/16 dev build
					ip link set build up`)
			}
			meet([]*machine{a, b}, with("tcp.networks", networks))
			if list := list(a.m.at); strings.Contains(list, "docker0") || !strings.Contains(list, "build") || len(a.m.at) != 5 {
				t.Errorf("published: %s", list)
			}
			a.m.limits.reach = time.Minute // a network that has just come up may be slow
			a.send(1, 3, 100, a, b)
			until(t, "arrived", func() bool { return len(b.s.Got[0]) == 1 }, a, b)
			check(t, b.s.Got[0][0], 3, 100)
			if got := a.over(); got != want {
				t.Errorf("over %s, not %s", got, want)
			}
			if len(a.s.Downs)+len(b.s.Downs) > 0 {
				t.Errorf("%v, %v", a.s.Downs, b.s.Downs)
			}
		})
	}
}

// The first network carries nothing: the second is found. When both ranks call at once there is one connection.
func TestAnotherNetwork(t *testing.T) {
	t.Parallel()
	a, b := twoMachines(t, 2)
	meet([]*machine{a, b})
	a.m.limits.reach, b.m.limits.reach = 50*time.Millisecond, 50*time.Millisecond
	b.drop("e0")
	a.drop("e0")
	h := eager(1, 10)
	for i, x := range []*machine{a, b} {
		x.do(func() { x.m.Send(1-i, &h, pattern(1, 10), 0, false) })
	}
	a.send(1, 1, 10, a, b)
	b.send(0, 2, 10, a, b)
	until(t, "arrived", func() bool { return len(b.s.Got[0]) == 1 && len(a.s.Got[1]) == 1 }, a, b)
	if got := a.over(); got != "10.71.0.2" && got != "fd71::2" {
		t.Errorf("over %s", got)
	}
	if got := b.over(); got != "10.71.0.1" && got != "fd71::1" {
		t.Errorf("over %s", got)
	}
}

// If no address serves, the error names each with what came of it.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	a, b := twoMachines(t, 2)
	meet([]*machine{a, b}, with("tcp.networks", "e0"), with("tcp.connect_timeout", "1500ms"))
	a.m.limits.reach = 150 * time.Millisecond
	b.drop("e0")
	b.do(func() { b.m.Close() })
	h := eager(1, 10)
	a.do(func() { a.m.Send(1, &h, pattern(1, 10), 0, false) })
	until(t, "down", func() bool { return len(a.s.Downs[1]) > 0 }, a)
	err := a.s.Downs[1][0]
	for _, want := range []string{"rank 1", "10.70.0.2:", "10.71.0.2:", "fd71::2]:", "connection refused", "no answer"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
	// All refuse at once: no need to wait.
	c, d := twoMachines(t, 2)
	meet([]*machine{c, d})
	d.do(func() { d.m.Close() })
	c.do(func() { c.m.Send(1, &h, pattern(1, 10), 0, false) })
	until(t, "down", func() bool { return len(c.s.Downs[1]) > 0 }, c)
	if err := c.s.Downs[1][0]; !errors.Is(err, unix.ECONNREFUSED) || strings.Count(err.Error(), "connection refused") != 4 {
		t.Error(err)
	}
}

// A path that is cut is told once a second, with the time since when, and once when it carries again.
func TestCut(t *testing.T) {
	t.Parallel()
	a, b := twoMachines(t, 1)
	meet([]*machine{a, b}, with("tcp.suspect", "1s"))
	a.send(1, 1, 10, a, b)
	until(t, "arrived", func() bool { return len(b.s.Got[0]) == 1 }, a, b)
	a.forgive()
	b.drop("e0")
	a.send(1, 2, 10, a)
	until(t, "told twice", func() bool { return len(a.said[1]) == 2 }, a, b)
	if a.m.conns[0].question == nil {
		t.Error("the other machine is not asked")
	}
	if said := a.said[1]; said[0] < time.Second || said[1] <= said[0] {
		t.Errorf("silent for %v", said)
	}
	b.heal()
	until(t, "told that it is mended", func() bool { return slices.Contains(a.said[1], 0) }, a, b)
	if len(b.said[0]) > 0 {
		t.Errorf("rank 1 has nothing to complain of, and says %v", b.said[0])
	}
}

// So is one that carries nothing from the beginning.
func TestCutAtOnce(t *testing.T) {
	t.Parallel()
	c, d := twoMachines(t, 1)
	meet([]*machine{c, d}, with("tcp.suspect", "1s"))
	d.drop("e0")
	h := eager(1, 10)
	c.do(func() { c.m.Send(1, &h, pattern(1, 10), 0, false) })
	until(t, "told", func() bool { return len(c.said[1]) == 2 }, c)
	d.heal()
	c.send(1, 1, 10, c, d)
	until(t, "told that it is mended", func() bool { return slices.Contains(c.said[1], 0) }, c, d)
}

// Where only some packets get through the connection may be silent for long, but the machine answers a question.
func TestLossIsNoCut(t *testing.T) {
	t.Parallel()
	a, b := twoMachines(t, 1)
	meet([]*machine{a, b}, with("tcp.suspect", "1s"))
	a.send(1, 1, 10, a, b)
	until(t, "arrived", func() bool { return len(b.s.Got[0]) == 1 }, a, b)
	a.forgive()
	a.do(func() { // as if nothing had come back for long
		c := a.m.conns[0]
		c.watch.since = time.Now().Add(-time.Hour)
		c.ask()
	})
	c := a.m.conns[0]
	until(t, "answered", func() bool { return c.question == nil }, a, b)
	if time.Since(c.watch.since) > time.Minute {
		t.Error("the answer does not count")
	}
	b.do(func() { b.m.unregister(b.m.lfd) }) // now nobody listens there
	a.do(func() {
		c.watch.since = time.Now().Add(-time.Hour)
		c.ask()
	})
	until(t, "answered", func() bool { return c.question == nil }, a)
	if time.Since(c.watch.since) > time.Minute {
		t.Error("the answer does not count")
	}
}

// A rank that does not read, because it is stopped or computes, is not cut off: its machine answers. In the end its
// window is shut.
func TestStoppedIsNotCut(t *testing.T) {
	t.Parallel()
	a, b := twoMachines(t, 1)
	meet([]*machine{a, b}, with("tcp.suspect", "1s"))
	a.send(1, 1, 10, a, b)
	a.forgive()
	h, p := eager(2, 60_000), pattern(2, 60_000)
	backoff := func() uint8 {
		a.do(func() { // until both kernels hold as much as they can
			for a.m.Send(1, &h, p, 0, false) != rpi.Full {
			}
		})
		i, err := unix.GetsockoptTCPInfo(a.m.conns[0].fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		return i.Backoff
	}
	until(t, "probed four times", func() bool { return backoff() >= 4 }, a)
	if len(a.said) > 0 {
		t.Errorf("a rank that does not read is taken for one that is cut off: %v", a.said)
	}
}
