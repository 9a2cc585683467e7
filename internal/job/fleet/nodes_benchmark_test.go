package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/launcher"
)

// envCrowd is set in the process that plays the nodes.
const envCrowd = "GORUN_FLEET_CROWD"

// BenchmarkNodes measures what many nodes cost the head: bringing them up, a life's agents, and leases. The nodes are
// goroutines of another process, each with the connections of a keeper and an agent.
//
//	GORUN_FLEET_NODES=4096 go test ./internal/job/fleet -run '^$' -bench Nodes -benchtime 1x
//
// Seconds of CPU and bytes of memory are the head's alone. It needs two descriptors a node.
func BenchmarkNodes(b *testing.B) {
	n := testenv.Number(b, "GORUN_FLEET_NODES", 1024)
	for b.Loop() {
		c := newCrowd(b)
		cfg := Config{
			Job: "job", NP: n, Grace: time.Hour, Terms: lease.DefaultTerms, Manager: c, Say: func(text string, _ bool) { b.Log(text) },
			Local: func(int) (launcher.Agent, error) { panic("nothing is local here") },
			Own:   &wire.NodeInfo{Machine: "own", Arch: "amd64", CPUs: 4, Digest: "d"},
		}
		for i := range n {
			cfg.Nodes = append(cfg.Nodes, hosts.Node{Name: fmt.Sprintf("198.18.%d.%d", i>>8, i&255), Slots: 1, SlotsGiven: true})
		}
		before := resident(b)
		f, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		step := func(name string, do func() error) {
			began, used := time.Now(), cpu(b)
			if err := do(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(began).Seconds(), name+"-s")
			b.ReportMetric(cpu(b)-used, name+"-cpu-s")
		}
		step("up", func() error { return f.Up(b.Context()) })
		step("agents", func() error {
			_, err := f.Begin(b.Context(), 1)
			return err
		})
		b.ReportMetric(float64(resident(b)-before)/float64(n)/1024, "KB/node")
		const watch = 10
		used := cpu(b)
		time.Sleep(watch * time.Second) // a part of what is measured
		b.ReportMetric((cpu(b)-used)/watch*100, "leases-cpu-%")
		for _, s := range f.States() {
			if s.State != "up" {
				b.Errorf("node %s is %s: %s", s.Name, s.State, s.Why)
			}
		}
		step("end", func() error {
			close(c.over)
			f.EndsWell(true)
			return f.Close()
		})
		c.leave()
	}
}

// cpu is the seconds of CPU that this process has used.
func cpu(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// resident is the memory of this process, in bytes.
func resident(b *testing.B) int {
	p, err := os.ReadFile("/proc/self/statm")
	var size, pages int
	if err == nil {
		_, err = fmt.Sscan(string(p), &size, &pages)
	}
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// crowd is a Manager whose keepers are goroutines of one other process.
type crowd struct {
	b    *testing.B
	cmd  *exec.Cmd
	in   io.WriteCloser
	mu   sync.Mutex
	over chan struct{} // closed when the nodes are let go
}

func newCrowd(b *testing.B) *crowd {
	c := &crowd{b: b, cmd: exec.Command(os.Args[0], "-test.run=^TestCrowd$"), over: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), envCrowd+"=1")
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *crowd) Name() string { return "crowd" }

func (c *crowd) Start(_ context.Context, _ launcher.Node, ticket []byte) (launcher.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.in.Write(append(ticket, '\n'))
	return &client{over: c.over, kill: func() {}}, err
}

func (c *crowd) leave() {
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		c.b.Error(err)
	}
}

// TestCrowd is the process that plays the nodes, and else no test.
func TestCrowd(t *testing.T) {
	if os.Getenv(envCrowd) == "" {
		t.Skip("a part of BenchmarkNodes")
	}
	var all sync.WaitGroup
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var ticket rendezvous.Ticket
		if err := json.Unmarshal(in.Bytes(), &ticket); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := inCrowd(ticket); err != nil {
				fmt.Fprintf(os.Stderr, "node %d: %v\n", ticket.Node, err)
				t.Fail()
			}
		})
	}
	all.Wait()
}

// inCrowd is one keeper, with its agent.
func inCrowd(t rendezvous.Ticket) error {
	s, err := rendezvous.Call(context.Background(), t)
	if err != nil {
		return err
	}
	conn := oob.New(s)
	defer conn.Close()
	h := wire.Hello("keeper")
	h.Data = wire.JSON(map[string]any{"role": "keeper", "node": wire.NodeInfo{Machine: fmt.Sprint("boot", t.Node), Arch: "amd64", CPUs: 1, Digest: "d"}})
	if err := conn.Send(h); err != nil {
		return err
	}
	if _, err := conn.Recv(); err != nil {
		return err
	}
	go func() {
		beat := time.NewTicker(lease.DefaultTerms.H)
		defer beat.Stop()
		for a := uint64(1); conn.Send(oob.Msg{Kind: oob.Renew, A: a}) == nil; a++ {
			<-beat.C
		}
	}()
	for {
		m, err := conn.Recv()
		if err != nil || m.Kind == oob.KillAll {
			return err
		}
		if m.Kind == oob.Begin {
			var order wire.Agent
			var ticket rendezvous.Ticket
			if err := json.Unmarshal(m.Data, &order); err == nil {
				err = json.Unmarshal(order.Ticket, &ticket)
			}
			if err != nil {
				return err
			}
			agent, err := rendezvous.Call(context.Background(), ticket)
			if err != nil {
				return err
			}
			defer agent.Close()
			if err := conn.Send(oob.Msg{Kind: oob.Begun, A: m.A, B: 1}); err != nil {
				return err
			}
		}
	}
}
