// Package local is the resource manager of one machine: agents are children of
// the head, each in a process group of its own, and speak over a socket pair.
package local

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/launcher"
)

// Manager starts agents on this machine.
type Manager struct{}

// Name returns "local".
func (Manager) Name() string { return "local" }

// Start runs this program again as an agent, with the socket as descriptor
// launcher.AgentFD. The group of its own keeps a terminal's ^C for the head.
func (Manager) Start(i, n int) (launcher.Agent, error) {
	ours, theirs, err := oob.Pair()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(theirs), "agent")
	defer f.Close()
	// The link, not the path: the binary may have been replaced since.
	cmd := exec.Command("/proc/self/exe", launcher.AgentVerb, fmt.Sprint(i))
	cmd.Args[0] = "gorun"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		syscall.Close(ours)
		return nil, fmt.Errorf("agent %d: %w", i, err)
	}
	conn, err := oob.NewConn(ours)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &agent{cmd: cmd, conn: conn, host: host}, nil
}

type agent struct {
	cmd  *exec.Cmd
	conn *oob.Conn
	host string
}

func (a *agent) Conn() *oob.Conn { return a.conn }
func (a *agent) PID() int        { return a.cmd.Process.Pid }
func (a *agent) Host() string    { return a.host }
func (a *agent) Address() string { return "" }
func (a *agent) Kill() error     { return a.cmd.Process.Kill() }
func (a *agent) Wait() error     { return a.cmd.Wait() }
func (a *agent) Local() bool     { return true }
