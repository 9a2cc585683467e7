package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// watches starts or stops the command of -migrate-on in this agent. One agent of each node runs it
// as long as it has ranks; then another agent that has ranks takes over. Caller holds mu.
func (a *agent) watches(command string) {
	switch {
	case command != "" && a.unwatch == nil:
		a.unwatch = make(chan struct{})
		go a.monitor(command, a.order.Start[a.order.Ranks[0]].Job, a.unwatch)
	case command == "" && a.unwatch != nil:
		close(a.unwatch)
		a.unwatch = nil
	}
}

// monitor runs the command. Each line that it prints says what is to leave the node. The head
// carries that out.
func (a *agent) monitor(command, job string, unwatch chan struct{}) {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env = append(append([]string(nil), a.order.Env...), "GORUN_JOB="+job, "GORUN_NODE="+a.order.Host)
	cmd.Dir, cmd.Stderr = string(a.order.Dir), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		a.words(err.Error())
		return
	}
	a.expect()
	a.run1(func() { err = cmd.Start() })
	a.born(func() {
		if err == nil {
			a.copies[cmd.Process.Pid] = true
		}
	})
	if err != nil {
		a.words(err.Error())
		return
	}
	pid := cmd.Process.Pid
	over := make(chan struct{})
	go func() {
		select {
		case <-a.quit:
		case <-a.gone:
		case <-unwatch:
		case <-over:
			return
		}
		syscall.Kill(-pid, syscall.SIGKILL)
	}()
	err = a.hear(lines, unwatch)
	if err != nil {
		syscall.Kill(-pid, syscall.SIGKILL) // it is not reaped yet
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	close(over)
	a.mu.Lock()
	delete(a.copies, pid)
	killed := a.killed || a.live == 0 || a.unwatch != unwatch // by ourselves
	a.mu.Unlock()
	if err != nil && !killed {
		a.words(fmt.Sprintf("%s: %v: this node is not watched any more", command, err))
	}
}

// alarmPace is the least time between two lines. A command that floods waits at its pipe.
const alarmPace = 100 * time.Millisecond

// hear passes on what the command prints, until it has ended or is not to watch any more.
func (a *agent) hear(lines io.Reader, unwatch chan struct{}) error {
	pace := time.NewTicker(alarmPace)
	defer pace.Stop()
	s := bufio.NewScanner(lines)
	for s.Scan() {
		a.alarm(s.Text())
		select {
		case <-pace.C:
		case <-a.quit:
			return nil
		case <-a.gone:
			return nil
		case <-unwatch:
			return nil
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("its output: %w", err)
	}
	return nil
}

// words are for people; an alarm is for the head.
func (a *agent) words(text string) {
	a.head.Send(oob.Msg{Kind: oob.Alarm, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: 1, Data: []byte(text)})
}

func (a *agent) alarm(line string) {
	w := wire.Watched{Line: line}
	if al, err := wire.ParseAlarm(line); err == nil && al.Device != "" && al.To == "" {
		w.Devices = a.deviceIDs()
	}
	a.head.Send(oob.Msg{Kind: oob.Alarm, From: oob.AgentAddr(int(a.index)), To: oob.Head, Data: wire.JSON(w)})
}

// deviceIDs are those of this node's devices, none if they cannot be listed.
func (a *agent) deviceIDs() (ids []string) {
	path, err := a.deviceServer()
	if err != nil {
		return nil
	}
	all, err := a.listDevices(path)
	if err != nil {
		return nil
	}
	for _, info := range all {
		ids = append(ids, info.ID())
	}
	return ids
}

// listLimit is how long a list of devices may take: a faulty driver may hang.
const listLimit = 20 * time.Second

// listDevices lists the node's devices.
func (a *agent) listDevices(server string) (all []offload.Info, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), listLimit)
	defer cancel()
	var text bytes.Buffer
	list := exec.CommandContext(ctx, server, "list")
	list.Env, list.Stdout, list.WaitDelay = a.order.Env, &text, time.Second
	list.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	a.expect()
	a.run1(func() { err = list.Start() })
	a.born(func() {
		if err == nil {
			a.copies[list.Process.Pid] = true
		}
	})
	if err != nil {
		return nil, err
	}
	err = list.Wait()
	a.mu.Lock()
	delete(a.copies, list.Process.Pid)
	a.mu.Unlock()
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &all)
	}
	return all, err
}
