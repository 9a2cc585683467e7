package keeper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/subreaper"
	"github.com/gorun-mpi/gorun/launcher"
)

// agent is an agent that this keeper has started.
type agent struct {
	cmd   *exec.Cmd
	conn  *oob.Conn
	queue *wire.Queue // to conn
	said  string      // how it ended, if not well; set before its number is on done
}

// begin starts an agent
func (k *keeper) begin(m *oob.Msg) error {
	var order wire.Agent
	if err := json.Unmarshal(m.Data, &order); err != nil {
		return fmt.Errorf("order to start an agent: %w", err)
	}
	ours, theirs, err := oob.Pair()
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(theirs), "agent")
	defer f.Close()
	conn, err := oob.NewConn(ours)
	if err != nil {
		syscall.Close(ours)
		return err
	}
	g := &agent{conn: conn, cmd: exec.Command("/proc/self/exe", launcher.AgentVerb, fmt.Sprint(order.Index), launcher.KeeperVerb)}
	g.cmd.Args[0] = "gorun"
	g.cmd.Stderr = &remarks{to: k.head, number: m.A}
	g.cmd.ExtraFiles = []*os.File{f}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd.WaitDelay = time.Second
	if err := subreaper.Start(g.cmd); err != nil {
		conn.Close()
		return err
	}
	g.queue = wire.NewQueue(conn)
	order.Folder = k.stage.dir
	k.mu.Lock()
	order.Until = k.holder.Until()
	g.queue.Send(oob.Msg{Kind: oob.Begin, A: m.A, Data: wire.JSON(order)})
	k.agents[m.A] = g
	k.mu.Unlock()
	k.head.Send(oob.Msg{Kind: oob.Begun, To: oob.Head, A: m.A, B: uint64(g.cmd.Process.Pid)})
	go func() {
		if err := subreaper.Wait(g.cmd); err != nil {
			g.said = err.Error()
		}
		subreaper.Bury()
		k.done <- m.A
	}()
	return nil
}

// kill ends an agent: the kernel ends its ranks with it.
func (g *agent) kill() { g.cmd.Process.Kill() }

// ended tells the head that nothing of an agent is left.
func (k *keeper) ended(number uint64) {
	k.mu.Lock()
	g := k.agents[number]
	delete(k.agents, number)
	k.mu.Unlock()
	g.queue.Close()
	g.conn.Close()
	k.head.Send(oob.Msg{Kind: oob.Ended, To: oob.Head, A: number, Data: []byte(g.said)})
}

// remarks tells the head what an agent prints.
type remarks struct {
	to     *wire.Queue
	number uint64
}

// mostRemark bounds one frame.
const mostRemark = 16 << 10

func (r *remarks) Write(p []byte) (int, error) {
	for q := p; len(q) > 0; {
		n := min(len(q), mostRemark)
		r.to.Send(oob.Msg{Kind: oob.Remark, To: oob.Head, A: r.number, Data: bytes.Clone(q[:n])})
		q = q[n:]
	}
	return len(p), nil
}
