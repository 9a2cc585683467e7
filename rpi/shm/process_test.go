package shm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// childVar names what this program does as rank 1 in a process of its own.
const childVar = "GORUN_TEST_SHM_RANK"

func TestMain(m *testing.M) {
	if part, ok := parts[os.Getenv(childVar)]; ok {
		child(part)
		os.Exit(0)
	}
	roundEvery = time.Hour
	os.Exit(m.Run())
}

// parts are what rank 1 does.
var parts = map[string]func(e *engine.Engine, m *Module){
	"echo": func(e *engine.Engine, _ *Module) {
		p := make([]byte, 1<<20)
		for {
			st, err := e.Recv(0, 1, engine.AnyTag, nil, p, nil)
			if err != nil {
				return
			}
			if e.Send(0, 1, int32(st.Tag), nil, p[:st.Bytes], engine.Standard, nil) != nil {
				return
			}
		}
	},
	"count": func(e *engine.Engine, _ *Module) { // answers each 64th message
		var p [8]byte
		for i := 1; ; i++ {
			if _, err := e.Recv(0, 1, engine.AnyTag, nil, p[:], nil); err != nil {
				return
			}
			if i%64 == 0 && e.Send(0, 1, 0, nil, p[:], engine.Standard, nil) != nil {
				return
			}
		}
	},
	"ring": func(e *engine.Engine, m *Module) {
		e.CloseGate()
		drop := &discard{}
		m.env.Sink = drop
		h := eager(0, 8)
		p := make([]byte, 8)
		for !m.peers[0].down {
			m.Poll()
			if drop.n > 0 {
				drop.n = 0
				m.Send(0, &h, p, 1, false)
			}
		}
	},
	"dies": func(e *engine.Engine, m *Module) { // in the middle of a frame, its fourth or a later one
		for i := range 3 {
			e.Send(0, 1, int32(i), nil, pattern(i, 5000), engine.Standard, nil)
		}
		e.CloseGate()
		h := rpi.Header{Kind: rpi.Data, Len: 1 << 20}
		m.pool.free[1].n = 3                                            // which leaves its last pieces unsent
		for m.Send(0, &h, make([]byte, 1<<20), 1, false) == rpi.Taken { // the receiver gave pieces back meanwhile
		}
		unix.Kill(os.Getpid(), unix.SIGKILL)
	},
}

// child is rank 1 of two: it says its address, and is told that of rank 0.
func child(part func(*engine.Engine, *Module)) {
	m := New()
	e := engine.New(engine.Config{Rank: 1, Size: 2, Modules: []rpi.Module{m}})
	c := env(1, 2)
	c.Sink = e.Sink(0)
	addr, err := m.Start(c)
	if err != nil {
		panic(err)
	}
	fmt.Println(hex.EncodeToString(addr))
	var line string
	fmt.Scanln(&line)
	other, err := hex.DecodeString(line)
	if err == nil {
		err = m.Peers([][]byte{other, addr})
	}
	if err == nil {
		err = m.Unreached(0)
	}
	if err != nil {
		panic(err)
	}
	e.Start()
	part(e, m)
	e.Close()
}

// withChild starts rank 1 in a process of its own, and m as rank 0, which
// delivers into s.
func withChild(t testing.TB, part string, m *Module, s rpi.Sink) {
	t.Helper()
	c := env(0, 2)
	c.Sink = s
	addr, err := m.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+part)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		<-ended
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		cmd.Wait()
		close(ended)
	}()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := hex.DecodeString(strings.TrimSpace(line))
	if err == nil {
		err = m.Peers([][]byte{addr, theirs})
	}
	if err == nil {
		err = m.Unreached(1)
	}
	if err == nil {
		_, err = fmt.Fprintln(in, hex.EncodeToString(addr))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A rank that is killed in the middle of a frame is missed by a peer that sleeps. What it had sent
// before is delivered.
func TestPeerDies(t *testing.T) {
	for _, direct := range []string{"4194304", "0"} { // how it is found out
		roundEvery = 10 * time.Millisecond
		s, m := newSink(2), New()
		withChild(t, "dies", m, s)
		if direct == "0" {
			m.peers[1].access = denied
		}
		for begin := time.Now(); len(s.Downs[1]) == 0; {
			if !m.Poll() && m.Arm() {
				m.Wait(-1)
			}
			if time.Since(begin) > time.Minute {
				t.Fatal("not missed")
			}
		}
		if err := s.Downs[1][0]; !errors.Is(err, ErrDied) {
			t.Error(err)
		}
		if len(s.Got[1]) < 3 {
			t.Fatalf("%d of 3 frames", len(s.Got[1]))
		}
		for i, f := range s.Got[1][:3] {
			check(t, f, i, 5000)
		}
		for _, f := range s.Got[1][3:] {
			if f.Kind != rpi.Data || !bytes.Equal(f.Payload, make([]byte, 1<<20)) {
				t.Errorf("a frame of kind %d with %d bytes", f.Kind, len(f.Payload))
			}
		}
		m.Close()
		roundEvery = time.Hour
	}
}
