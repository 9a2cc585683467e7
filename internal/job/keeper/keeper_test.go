package keeper

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/store/node"
	agents "github.com/gorun-mpi/gorun/internal/job/agent"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/launcher"
)

// patience is for what takes a moment, on a machine that has other things to do.
const patience = time.Minute

// envAgent makes agents that do not call home, but leave an orphan and wait.
const envAgent = "GORUN_TEST_AGENT"

// TestMain makes this test a gorun that can be a keeper and an agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case launcher.KeeperVerb:
			os.Exit(Main(os.Args[2:]))
		case launcher.AgentVerb:
			if os.Getenv(envAgent) != "" {
				orphanAgent()
			}
			os.Exit(agents.Main(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// orphanAgent leaves a process in a session of its own, tells its number, and waits to be killed.
func orphanAgent() {
	out, err := exec.Command("setsid", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	fmt.Fprintf(os.Stderr, "orphan %s%v", out, err)
	io.Copy(io.Discard, os.NewFile(launcher.AgentFD, "keeper"))
	select {}
}

// head is the other side of a keeper.
type head struct {
	t      *testing.T
	home   *rendezvous.Listener
	cmd    *exec.Cmd
	conn   *oob.Conn
	said   bytes.Buffer
	grants bool  // it grants what is asked
	lease  int64 // since when the keeper has had a lease when it last began an agent, or longer: when it asked for that
	ended  chan struct{}
}

// start starts a keeper, with a lease of 3 seconds, and greets it.
func start(t *testing.T, env ...string) *head {
	h := &head{t: t, grants: true, ended: make(chan struct{})}
	var err error
	if h.home, err = rendezvous.Listen(rendezvous.Config{Job: "job"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.home.Close() })
	self, err := launcher.Self()
	if err != nil {
		t.Fatal(err)
	}
	h.cmd = exec.Command(self.Path, launcher.KeeperVerb, self.Digest)
	h.cmd.Env = append(os.Environ(), append(env, "TMPDIR="+t.TempDir())...)
	h.cmd.Stderr = &h.said
	h.cmd.WaitDelay = time.Second
	in, err := h.cmd.StdinPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		h.cmd.Wait()
		close(h.ended)
	}()
	t.Cleanup(func() {
		h.cmd.Process.Kill()
		<-h.ended
	})
	if _, err := in.Write(append(wire.JSON(h.home.Ticket(3, rendezvous.Keeper, 0)), '\n')); err != nil {
		t.Fatal(err)
	}
	c, s, err := h.home.Accept()
	if err != nil || c.Node != 3 || c.Agent != rendezvous.Keeper {
		t.Fatalf("%+v, %v", c, err)
	}
	h.conn = oob.New(s)
	t.Cleanup(func() { h.conn.Close() })
	m := h.recv()
	var hello struct{ Node wire.NodeInfo }
	if err := json.Unmarshal(m.Data, &hello); err != nil || hello.Node.Machine == "" || hello.Node.CPUs < 1 || hello.Node.Digest != self.Digest {
		t.Fatalf("%s: %v", m.Data, err)
	}
	terms := wire.Hello("head")
	terms.Data = wire.JSON(wire.Terms{LeaseMillis: 3000, BeatMillis: 200})
	h.send(terms)
	return h
}

func (h *head) send(m oob.Msg) {
	h.t.Helper()
	if err := h.conn.Send(m); err != nil {
		h.t.Fatal(err)
	}
}

func (h *head) recv() oob.Msg {
	h.t.Helper()
	h.conn.SetReadDeadline(time.Now().Add(patience))
	m, err := h.conn.Recv()
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// expect waits for a frame, and renews the lease meanwhile.
func (h *head) expect(k oob.Kind) oob.Msg {
	h.t.Helper()
	for {
		m := h.recv()
		if m.Kind == oob.Renew && h.grants {
			h.send(oob.Msg{Kind: oob.Grant, A: m.A})
		}
		if m.Kind == k {
			return m
		}
		if m.Kind != oob.Renew {
			h.t.Fatalf("a frame of kind %d, want %d: %s", m.Kind, k, m.Data)
		}
	}
}

// begin starts an agent and returns its pid. It has a lease by then.
func (h *head) begin(number uint64) int {
	h.t.Helper()
	asked := h.expect(oob.Renew)
	h.send(oob.Msg{Kind: oob.Begin, A: number, Data: wire.JSON(wire.Agent{Index: 5, Ticket: wire.JSON(h.home.Ticket(3, 5, 1))})})
	m := h.expect(oob.Begun)
	if m.A != number {
		h.t.Fatalf("agent %d was begun, not %d", m.A, number)
	}
	h.lease = int64(asked.A)
	return int(m.B)
}

// call waits for the call of an agent, and renews the lease meanwhile.
func (h *head) call() (rendezvous.Caller, oob.Stream) {
	h.t.Helper()
	type call struct {
		caller rendezvous.Caller
		stream oob.Stream
		err    error
	}
	calls := make(chan call, 1)
	go func() {
		c, s, err := h.home.Accept()
		calls <- call{c, s, err}
	}()
	for {
		h.expect(oob.Renew)
		select {
		case c := <-calls:
			if c.err != nil {
				h.t.Fatal(c.err)
			}
			h.t.Cleanup(func() { c.stream.Close() })
			return c.caller, c.stream
		default:
		}
	}
}

// orphan is the process that a test's agent has left.
func (h *head) orphan() int {
	h.t.Helper()
	for text := ""; ; {
		text += string(h.expect(oob.Remark).Data)
		if line, ok := strings.CutPrefix(text, "orphan "); ok && strings.HasSuffix(text, "<nil>") {
			pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(line, "<nil>")))
			if err != nil || !lives(pid) {
				h.t.Fatalf("%q: %v", text, err)
			}
			return pid
		}
	}
}

// lives reports whether a process runs: one that only waits to be reaped does not.
func lives(pid int) bool {
	st, ok := procfs.ReadStat(pid)
	return ok && !st.Ended()
}

// left waits for the keeper's end, and that nothing of it is left.
func (h *head) left(pids ...int) {
	h.t.Helper()
	select {
	case <-h.ended:
	case <-time.After(patience):
		h.t.Fatal("it has not left")
	}
	for _, pid := range pids {
		testenv.Until(h.t, func() string {
			if lives(pid) {
				return fmt.Sprintf("process %d is left; the keeper said %s", pid, &h.said)
			}
			return ""
		})
	}
	if left, _ := filepath.Glob(filepath.Join(h.tmp(), "*")); len(left) > 0 {
		h.t.Errorf("left are %v", left)
	}
}

func (h *head) tmp() string {
	for _, kv := range h.cmd.Env {
		if dir, ok := strings.CutPrefix(kv, "TMPDIR="); ok && dir != os.Getenv("TMPDIR") {
			return dir
		}
	}
	return ""
}

// An agent calls home, and when it is killed the keeper says that nothing is left.
func TestAgent(t *testing.T) {
	h := start(t)
	pid := h.begin(7)
	c, s := h.call()
	if c.Node != 3 || c.Agent != 5 || c.Life != 1 {
		t.Fatalf("%+v", c)
	}
	a := oob.New(s)
	if m, err := a.Recv(); err != nil || m.Kind != oob.Hello || m.From != oob.AgentAddr(5) {
		t.Fatalf("%+v, %v", m, err)
	}
	h.send(oob.Msg{Kind: oob.End, A: 7})
	if m := h.expect(oob.Ended); m.A != 7 || string(m.Data) != "signal: killed" || lives(pid) {
		t.Errorf("%+v %s", m, m.Data)
	}
	h.send(oob.Msg{Kind: oob.KillAll, B: oob.Goodbye})
	h.left(pid)
}

// What an agent leaves is ended before it is said to be gone.
func TestOrphan(t *testing.T) {
	h := start(t, envAgent+"=1")
	h.begin(1)
	orphan := h.orphan()
	h.send(oob.Msg{Kind: oob.End, A: 1})
	h.expect(oob.Ended)
	if lives(orphan) {
		t.Error("the orphan lives")
	}
	h.send(oob.Msg{Kind: oob.End, A: 1}) // again: nobody is there
	h.send(oob.Msg{Kind: oob.KillAll, B: oob.Goodbye})
	h.left()
}

// However a keeper is to leave, nothing is left.
func TestLeaves(t *testing.T) {
	for name, leave := range map[string]func(h *head){
		"goodbye":         func(h *head) { h.send(oob.Msg{Kind: oob.KillAll, B: oob.Goodbye}) },
		"connection ends": func(h *head) { h.conn.Close() },
		"SIGTERM": func(h *head) {
			h.cmd.Process.Signal(syscall.SIGTERM)
			if m := h.expect(oob.Leaving); !strings.Contains(string(m.Data), "SIGTERM") {
				h.t.Errorf("it leaves: %s", m.Data)
			}
			h.expect(oob.Ended)
			h.expect(oob.Left)
		},
		"no grants": func(h *head) { h.grants = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, envAgent+"=1")
			pid := h.begin(1)
			orphan := h.orphan()
			leave(h)
			h.left(pid, orphan)
		})
	}
}

// A keeper that stands still is killed by the kernel when its lease ends, and so is its agent.
func TestStopped(t *testing.T) {
	t.Parallel()
	h := start(t)
	pid := h.begin(1)
	h.call()
	for _, p := range []int{h.cmd.Process.Pid, pid} {
		if err := syscall.Kill(p, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	h.left(pid)
	if after := lease.Now() - h.lease; after < 3000 {
		t.Errorf("they were killed %d ms after a lease of 3 s was asked for", after)
	}
}

// A program is fetched where it is not there, once.
func TestProvide(t *testing.T) {
	h := start(t)
	text := []byte(strings.Repeat("a program ", 1000))
	sum := sha256.Sum256(text)
	dir := t.TempDir()
	want := wire.Provision{Program: rawstring.String(filepath.Join(dir, "program")), Digest: hex.EncodeToString(sum[:]), Size: int64(len(text)), Dir: rawstring.String(dir)}
	ask := func(number uint64, want wire.Provision) {
		h.send(oob.Msg{Kind: oob.Provide, A: number, Data: wire.JSON(want)})
	}
	provided := func() (p wire.Provided) {
		t.Helper()
		if err := json.Unmarshal(h.expect(oob.Provided).Data, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	ask(1, want)
	for off := 0; off < len(text); off += 4000 {
		if m := h.expect(oob.Fetch); m.A != 1 || m.B != uint64(off) {
			t.Fatalf("%+v", m)
		}
		h.send(oob.Msg{Kind: oob.Piece, A: 1, B: uint64(off), Data: text[off:min(off+4000, len(text))]})
	}
	path := string(provided().Program)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) || !strings.HasPrefix(path, h.tmp()) {
		t.Errorf("%s: %v", path, err)
	}
	ask(2, want)
	if p := provided(); string(p.Program) != path {
		t.Errorf("the second time it is %+v", p)
	}
	if err := os.WriteFile(filepath.Join(dir, "program"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	ask(3, want)
	if p := provided(); p.Program != want.Program {
		t.Errorf("where it is there it is %+v", p)
	}
	bad := want
	bad.Digest = strings.Repeat("00", 32)
	ask(4, bad)
	h.expect(oob.Fetch)
	h.send(oob.Msg{Kind: oob.Piece, A: 4, Data: text})
	if p := provided(); !strings.Contains(p.Err, "has changed") {
		t.Errorf("another program: %+v", p)
	}
	ask(5, bad)
	h.expect(oob.Fetch)
	h.send(oob.Msg{Kind: oob.Piece, A: 5})
	if p := provided(); !strings.Contains(p.Err, "cannot read") {
		t.Errorf("no program: %+v", p)
	}
	bad.Dir = "/no/such/folder"
	ask(6, bad)
	if p := provided(); !strings.Contains(p.Err, "working folder") {
		t.Errorf("no folder: %+v", p)
	}
	token := filepath.Join(dir, "token")
	ask(7, wire.Provision{Token: rawstring.String(token)})
	if err := os.WriteFile(token, nil, 0o600); err != nil { // it may come late
		t.Fatal(err)
	}
	if p := provided(); p.Err != "" {
		t.Errorf("a token that is there: %+v", p)
	}
	ask(8, wire.Provision{Token: rawstring.String(token + "s")})
	if p := provided(); !strings.Contains(p.Err, token+"s: no such file") {
		t.Errorf("a token that is not there: %+v", p)
	}
	h.send(oob.Msg{Kind: oob.KillAll, B: oob.Goodbye})
	h.left()
}

// A keeper without a ticket, or that is another gorun, says so and leaves.
func TestNoTicket(t *testing.T) {
	self, err := launcher.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ digest, input, want string }{
		{self.Digest, "", "no ticket"},
		{self.Digest, "{}\n", "ticket"},
		{self.Digest, strings.Repeat("x", 2*mostTicket), "no ticket"},
		{"another", "", launcher.KeeperDiffers},
	} {
		cmd := exec.Command(self.Path, launcher.KeeperVerb, v.digest)
		cmd.Stdin = strings.NewReader(v.input)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), v.want) {
			t.Errorf("%.20q: %s", v.input, out)
		}
	}
}

// A keeper opens its listener when it is asked, and others read there what the head has named. The listener goes with it.
func TestDoor(t *testing.T) {
	h := start(t)
	folder := t.TempDir()
	l, err := node.OpenLocal(folder)
	if err == nil {
		err = l.Begin(t.Context(), "j/1")
	}
	if err != nil {
		t.Fatal(err)
	}
	h.send(oob.Msg{Kind: oob.Folder, A: 4, Data: []byte(folder)})
	var o, again listener.Opened
	for _, o := range []*listener.Opened{&o, &again} {
		h.send(oob.Msg{Kind: oob.Listen})
		if err := json.Unmarshal(h.expect(oob.Listen).Data, o); err != nil || o.Key == nil {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	if !slices.Equal(o.Key.Addresses, again.Key.Addresses) {
		t.Errorf("two doors: %v, %v", o.Key.Addresses, again.Key.Addresses)
	}
	ticket, err := o.Key.Ticket(2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := listener.Call(t.Context(), ticket, listener.Files)
	if err != nil {
		t.Fatal(err)
	}
	client, closed := listener.Read(s)
	defer closed()
	if all, err := client.Store("4").Sets(t.Context(), "j"); err != nil || !slices.Equal(all, []string{"j/1"}) {
		t.Errorf("%v, %v", all, err)
	}
	h.send(oob.Msg{Kind: oob.KillAll, B: oob.Goodbye})
	h.left()
	if _, err := listener.Call(t.Context(), ticket, listener.Files); err == nil {
		t.Error("the listener is open without its keeper")
	}
}
