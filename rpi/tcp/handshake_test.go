package tcp

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// call connects to a module as a stranger.
func call(t testing.TB, addr []byte) int {
	t.Helper()
	a, err := decodeAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	family, sa := sockaddr(netip.AddrPortFrom(a.at[0].IP, a.port))
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, sa)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// hear polls until the stranger has got n bytes or the end of the connection.
func hear(w *world, fd, n int) []byte {
	w.T.Helper()
	p := make([]byte, n)
	have := 0
	w.Until("an answer", func() bool {
		k, err := unix.Read(fd, p[have:])
		if k > 0 {
			have += k
		}
		return have == n || k == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return p[:have]
}

func greeting0(change func(*hello)) []byte {
	h := hello{version: version, order: nativeOrder, from: 1, to: 0, size: 3, incarnation: 77}
	copy(h.nonce[:], pattern(3, nonceSize))
	if change != nil {
		change(&h)
	}
	p := make([]byte, helloSize)
	h.encode(p)
	return p
}

func TestHandshakeByHand(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	fd := call(t, w.Addrs[0])
	defer unix.Close(fd)
	hi := greeting0(nil)
	for _, b := range hi { // in the smallest pieces
		unix.Write(fd, []byte{b})
		w.Poll()
	}
	answer := hear(w, fd, verdictSize+answerSize)
	if c, err := decodeVerdict(answer[:verdictSize]); c != codeGo || err != nil {
		t.Fatal(c, err)
	}
	nonce, proof := answer[verdictSize:verdictSize+nonceSize], answer[verdictSize+nonceSize:]
	if !bytes.Equal(proof, prove(secret, labelAcceptor, hi, nonce)) {
		t.Fatal("the acceptor's proof")
	}
	for _, b := range prove(secret, labelInitiator, hi, nonce) {
		if len(w.M[0].conns) != 0 {
			t.Fatal("accepted before the proof was complete")
		}
		unix.Write(fd, []byte{b})
		w.Poll()
	}
	if c, err := decodeVerdict(hear(w, fd, verdictSize)); c != codeGo || err != nil {
		t.Fatal(c, err)
	}
	f := make([]byte, rpi.HeaderSize+3)
	h := eager(4, 3)
	h.Encode(f)
	copy(f[rpi.HeaderSize:], pattern(4, 3))
	unix.Write(fd, f)
	w.Until("frame", func() bool { return len(w.S[0].Got[1]) == 1 })
	check(t, w.S[0].Got[1][0], 4, 3)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	for name, c := range map[string]struct {
		change func(*hello)
		want   code
	}{
		"version":     {func(h *hello) { h.version = 2; h.size = 9 }, codeVersion},
		"order":       {func(h *hello) { h.order = littleEndian + bigEndian - nativeOrder }, codeOrder},
		"incarnation": {func(h *hello) { h.incarnation++ }, codeIncarnation},
		"to another":  {func(h *hello) { h.to = 2 }, codeRank},
		"from itself": {func(h *hello) { h.from = 0 }, codeRank},
		"from beyond": {func(h *hello) { h.from = 3 }, codeRank},
		"from far":    {func(h *hello) { h.from = 1<<32 - 1 }, codeRank},
		"size":        {func(h *hello) { h.size = 4 }, codeRank},
	} {
		t.Run(name, func(t *testing.T) {
			fd := call(t, w.Addrs[0])
			defer unix.Close(fd)
			unix.Write(fd, greeting0(c.change))
			got := hear(w, fd, verdictSize+1) // the verdict, and the end
			if len(got) != verdictSize || code(got[7]) != c.want {
				t.Fatalf("answer %q, want %v", got, c.want)
			}
		})
	}
	if len(w.M[0].guests) != 0 {
		t.Fatal("guests left")
	}
}

func TestWrongProof(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	fd := call(t, w.Addrs[0])
	defer unix.Close(fd)
	unix.Write(fd, greeting0(nil))
	answer := hear(w, fd, verdictSize+answerSize)
	// The acceptor's own proof played back is none.
	unix.Write(fd, answer[verdictSize+nonceSize:])
	if got := hear(w, fd, verdictSize+1); len(got) != verdictSize || code(got[7]) != codeProof {
		t.Fatalf("answer %q", got)
	}
	if len(w.S[0].Downs) != 0 || len(w.M[0].conns) != 0 || w.M[0].peer(1).state != idle {
		t.Fatal("a stranger has done rank 1 harm")
	}
	w.Connect(1, 0)
}

// Modules that do not belong together: the initiator learns why, the acceptor
// is not touched.
func TestStrangersAmongRanks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rpi.Env)
		want   string
	}{
		"secret":      {func(e *rpi.Env) { e.Secret = []byte("wrong") }, "secret"},
		"incarnation": {func(e *rpi.Env) { e.Incarnation++ }, "incarnation"},
		"rank":        {func(e *rpi.Env) { e.Rank = 0 }, "another rank"},
		"size":        {func(e *rpi.Env) { e.Size = 5 }, "another size"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			defer w.Close()
			e := env(1, 3)
			c.change(&e)
			s := newSink(e.Size)
			e.Sink = s
			m := New()
			if _, err := m.Start(e); err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			addrs := make([][]byte, e.Size)
			target := 2
			addrs[target] = w.Addrs[target]
			if name == "rank" { // meant for another rank
				addrs[target] = w.Addrs[1]
			}
			if err := m.Peers(addrs); err != nil {
				t.Fatal(err)
			}
			h := eager(0, 0)
			m.Send(target, &h, nil, 0, false)
			w.Until("refused", func() bool { m.Poll(); return len(s.Downs[target]) > 0 })
			err := s.Downs[target][0]
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "rank 2") {
				t.Fatal(err)
			}
			w.Poll()
			for i := range w.S {
				if len(w.S[i].Downs) > 0 || len(w.M[i].conns) > 0 {
					t.Fatalf("rank %d was touched: %v", i, w.S[i].Downs)
				}
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.M[1].Close()
	w.M[1] = w.M[0]
	h := eager(0, 0)
	if w.M[0].Send(1, &h, nil, 0, false) != rpi.Full {
		t.Fatal("taken")
	}
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	if err := w.S[0].Downs[1][0]; !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatal(err)
	}
}

// A peer that never answers is given up by the clock, in Wait.
func TestNoAnswer(t *testing.T) {
	w := newWorld(t, 2, with("tcp.connect_timeout", "5ms"))
	defer w.Close()
	m, h := w.M[0], eager(0, 0)
	m.Send(1, &h, nil, 0, false)
	for len(w.S[0].Downs[1]) == 0 { // rank 1 is not polled
		if !m.Poll() && m.Arm() {
			m.Wait(10 * time.Second)
		}
	}
	if err := w.S[0].Downs[1][0]; !errors.Is(err, ErrNoAnswer) {
		t.Fatal(err)
	}
}

// The time in which a rank stood still, such as in a suspended job, is not that of its peers. What went before it counts.
func TestStoodStill(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	m, h := w.M[0], eager(0, 0)
	m.Send(1, &h, nil, 0, false)
	p := m.peer(1)
	before := func(d time.Duration) {
		p.deadline, p.began, m.timerAt = p.deadline.Add(-d), p.began.Add(-d), m.timerAt.Add(-d)
	}
	before(5 * time.Minute)
	timer{m}.ready(0)
	if left := time.Until(p.deadline); len(w.S[0].Downs[1]) > 0 || left < m.params.connectTimeout-2*tick {
		t.Errorf("%v left after a stop: %v", left, w.S[0].Downs[1])
	}
	if ago := time.Since(p.began); ago > 2*tick {
		t.Errorf("begun %v ago", ago)
	}
	p.deadline = p.deadline.Add(-m.params.connectTimeout + tick)
	before(5 * time.Minute)
	timer{m}.ready(0)
	if left := time.Until(p.deadline); left > tick {
		t.Errorf("%v left", left)
	}
	p.deadline = time.Now() // a second ago, as it were, and the timer has fired in time
	timer{m}.ready(0)
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	if err := w.S[0].Downs[1][0]; !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
}

func TestSilenceAndGarbage(t *testing.T) {
	w := newWorld(t, 2, with("tcp.stranger_timeout", "5ms"))
	defer w.Close()
	m := w.M[0]
	silent := call(t, w.Addrs[0])
	defer unix.Close(silent)
	noisy := call(t, w.Addrs[0])
	defer unix.Close(noisy)
	unix.Write(noisy, []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: a browser that is lost\r\n\r\n"))
	if got := hear(w, noisy, 1); len(got) != 0 {
		t.Fatalf("garbage was answered with %q", got)
	}
	w.Until("the silent one is in", func() bool { return len(m.guests) == 1 })
	for len(m.guests) > 0 {
		if !m.Poll() && m.Arm() {
			m.Wait(10 * time.Second)
		}
	}
	w.Connect(1, 0)
}

func TestCrowdOfStrangers(t *testing.T) {
	w := newWorld(t, 2, with("tcp.strangers", "8"))
	defer w.Close()
	before := descriptors(t)
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range 100 {
		fds = append(fds, call(t, w.Addrs[0]))
		w.Poll()
	}
	w.Until("all seen", func() bool { return len(w.M[0].guests) == 8 && !w.M[0].Poll() })
	if n := descriptors(t) - before - len(fds); n != 8 {
		t.Fatalf("%d descriptors for strangers", n)
	}
	w.Connect(1, 0)
	w.Connect(0, 1)
}

// Whoever begins when, one connection survives, and no frame is lost.
func TestSimultaneousConnect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 2)
		defer w.Close()
		const frames = 5
		var next [2]int
		steps := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 60).Draw(rt, "steps")
		send := func(rank int) {
			h := eager(next[rank], 3)
			if next[rank] < frames && w.M[rank].Send(1-rank, &h, pattern(next[rank], 3), 0, false) == rpi.Taken {
				next[rank]++
			}
		}
		for _, s := range steps {
			if s < 2 {
				send(s)
			} else {
				w.M[s-2].Poll()
			}
		}
		w.Until("all arrived", func() bool {
			send(0)
			send(1)
			return len(w.S[0].Got[1]) == frames && len(w.S[1].Got[0]) == frames
		})
		for rank, m := range w.M {
			for i, f := range w.S[rank].Got[1-rank] {
				check(t, f, i, 3)
			}
			if len(m.conns) != 1 || m.attempts != 0 || len(w.S[rank].Downs) != 0 {
				rt.Fatalf("rank %d: %d connections, %d attempts, %v", rank, len(m.conns), m.attempts, w.S[rank].Downs)
			}
		}
		w.Until("no guests left", func() bool { return len(w.M[0].guests)+len(w.M[1].guests) == 0 })
	})
}

// Checkpoints at random moments of random traffic, connecting included: the
// ranks close their gates at different times, exchange what they have sent, and
// drain; then nothing is in flight. Afterwards the traffic goes on.
func TestQuiesceAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(rt, "ranks")
		var change []func(*rpi.Env)
		if rapid.Bool().Draw(rt, "few strangers") {
			change = append(change, with("tcp.strangers", "1"))
		}
		w := newWorld(t, n, change...)
		defer w.Close()
		sent := make([][]uint64, n)
		count := make([][]int, n)
		wish := make([][]bool, n)
		for i := range n {
			sent[i], count[i], wish[i] = make([]uint64, n), make([]int, n), make([]bool, n)
		}
		closed := make([]bool, n)
		sizes := []int{0, 8, 3000, 60000, 200000}
		try := func(from, to, size int) {
			h := eager(count[from][to], sizes[size])
			wish[from][to] = true
			if w.M[from].Send(to, &h, pattern(count[from][to], sizes[size]), 9, size == 1) != rpi.Full {
				sent[from][to] += h.Counted()
				count[from][to]++
			}
		}
		act := func() {
			from := rapid.IntRange(0, n-1).Draw(rt, "from")
			if to := rapid.IntRange(0, n-1).Draw(rt, "to"); to != from && !closed[from] {
				try(from, to, rapid.IntRange(0, len(sizes)-1).Draw(rt, "size"))
			}
			for range rapid.IntRange(0, 2).Draw(rt, "polls") {
				w.M[rapid.IntRange(0, n-1).Draw(rt, "who")].Poll()
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "checkpoints") {
			for range rapid.IntRange(0, 25).Draw(rt, "before") {
				act()
			}
			for _, i := range rapid.Permutation(seq(n)).Draw(rt, "closing") {
				closed[i] = true
				w.M[i].Quiesce()
				for range rapid.IntRange(0, 3).Draw(rt, "between") {
					act()
				}
			}
			drained := func(i int) bool {
				for j := range n {
					if w.S[i].Received[j] != sent[j][i] {
						return false
					}
				}
				return w.M[i].Quiet()
			}
			// A rank that is ready is not polled any more until all are.
			ready := make([]bool, n)
			waiting := n
			for begin := time.Now(); waiting > 0; {
				for i := range n {
					if !ready[i] {
						w.M[i].Poll()
						if w.M[i].Quiet() && drained(i) {
							ready[i] = true
							waiting--
						}
					}
				}
				if time.Since(begin) > time.Minute {
					rt.Fatalf("ready %v", ready)
				}
			}
			// Captured here: nothing moves, nobody is half connected.
			for i := range n {
				for range 3 {
					w.M[i].Poll()
				}
				if !drained(i) || w.M[i].attempts+len(w.M[i].guests) != 0 {
					rt.Fatalf("rank %d is not at rest", i)
				}
				for j := range n {
					if (w.M[i].peer(j).state == up) != (w.M[j].peer(i).state == up) {
						rt.Fatalf("ranks %d and %d disagree about their connection", i, j)
					}
				}
			}
			for i := range n {
				closed[i] = false
				w.M[i].Continue()
			}
			// Connections that were torn down come up again by themselves.
			w.Until("connected again", func() bool {
				for i := range n {
					for j := range n {
						if wish[i][j] && w.M[i].peer(j).state != up {
							return false
						}
					}
				}
				return true
			})
		}
		for i := range n {
			for j := range n {
				for k, f := range w.S[j].Got[i] {
					check(t, f, k, f.PayloadLen())
				}
			}
			if len(w.S[i].Downs) > 0 {
				rt.Fatalf("rank %d: %v", i, w.S[i].Downs)
			}
		}
	})
}

func seq(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
}

// A caller that comes while the gate is closed is not taken in, does not keep
// Wait from sleeping, and is served afterwards.
func TestCallerDuringQuiesce(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.M[0].Quiesce()
	h := eager(1, 1)
	w.M[1].Send(0, &h, []byte{1}, 0, false)
	for range 100 {
		w.Poll()
	}
	if !w.M[0].Quiet() || w.M[1].Quiet() {
		t.Fatal("the caller is not at rest, the called one is")
	}
	begin := time.Now()
	w.M[0].Wait(20 * time.Millisecond)
	if time.Since(begin) < 20*time.Millisecond {
		t.Fatal("a caller kept Wait from sleeping")
	}
	w.M[1].Quiesce()
	if !w.M[1].Quiet() {
		t.Fatal("an attempt without proof was not torn down")
	}
	w.M[0].Continue()
	w.M[1].Continue()
	w.Until("connected", func() bool { return len(w.M[0].conns) == 1 && len(w.M[1].conns) == 1 })
	if w.S[1].Room[0] != 1 {
		t.Fatal("Writable is owed")
	}
}
