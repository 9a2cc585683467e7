// Package local starts agents on the head's own machine. They are children of the head, each in a
// process group of its own, and speak over a socket pair. They need no keeper: they see the head's
// end at once. A lease against a head that stands still comes as a frame (package agent).
package local

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/subreaper"
	"github.com/gorun-mpi/gorun/launcher"
)

// Start runs this program again as agent i, with the socket as descriptor
// launcher.AgentFD. The group of its own keeps a terminal's ^C for the head.
func Start(i int) (launcher.Agent, error) {
	if err := subreaper.Adopt(); err != nil {
		return nil, err
	}
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
	if err := subreaper.Start(cmd); err != nil {
		syscall.Close(ours)
		return nil, fmt.Errorf("agent %d: %w", i, err)
	}
	stream, err := oob.Socket(ours)
	if err != nil {
		cmd.Process.Kill()
		subreaper.Wait(cmd)
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &agent{cmd: cmd, stream: stream, host: host}, nil
}

type agent struct {
	cmd    *exec.Cmd
	stream oob.Stream
	host   string
}

func (a *agent) Stream() oob.Stream { return a.stream }
func (a *agent) PID() int           { return a.cmd.Process.Pid }
func (a *agent) Host() string       { return a.host }
func (a *agent) Address() string    { return "" }
func (a *agent) Kill() error        { return a.cmd.Process.Kill() }

// Wait waits for the agent, and ends the orphans that it has left to this process.
func (a *agent) Wait() error {
	err := subreaper.Wait(a.cmd)
	subreaper.Bury()
	return err
}
