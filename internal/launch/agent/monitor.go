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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// monitor runs the command of -migrate-on, on each node once, for as long as its agent has ranks. Each line that it prints says what is to leave the node. The head
// has that done.
func (a *agent) monitor() {
	cmd := exec.Command("/bin/sh", "-c", a.order.MigrateOn)
	cmd.Env = append(append([]string(nil), a.order.Env...), "GORUN_JOB="+a.startOf(a.order.Ranks[0]).Job, "GORUN_NODE="+a.order.Host)
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
		case <-over:
			return
		}
		syscall.Kill(-pid, syscall.SIGKILL)
	}()
	err = a.hear(lines)
	if err != nil {
		syscall.Kill(-pid, syscall.SIGKILL) // it is not reaped yet
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	close(over)
	a.mu.Lock()
	delete(a.copies, pid)
	killed := a.killed || a.live == 0 // by ourselves
	a.mu.Unlock()
	if err != nil && !killed {
		a.words(fmt.Sprintf("%s: %v: nobody watches this node any more", a.order.MigrateOn, err))
	}
}

// alarmPace is the least time between two lines. A command that floods waits at its pipe.
const alarmPace = 100 * time.Millisecond

// hear passes on what the command prints, until it has ended or the agent has.
func (a *agent) hear(lines io.Reader) error {
	pace := time.NewTicker(alarmPace)
	defer pace.Stop()
	s := bufio.NewScanner(lines)
	for s.Scan() {
		a.alarm(a.elsewhere(s.Text()))
		select {
		case <-pace.C:
		case <-a.quit:
			return nil
		case <-a.gone:
			return nil
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("its output: %w", err)
	}
	return nil
}

// words are for people, as against an alarm.
func (a *agent) words(text string) {
	a.head.Send(oob.Msg{Kind: oob.Alarm, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: 1, Data: []byte(text)})
}

func (a *agent) alarm(line string) {
	a.head.Send(oob.Msg{Kind: oob.Alarm, From: oob.AgentAddr(int(a.index)), To: oob.Head, Data: []byte(line)})
}

// elsewhere names another device of this node for one that is to be left, if there is one.
func (a *agent) elsewhere(line string) string {
	al, err := wire.ParseAlarm(line)
	if err != nil || al.Device == "" || al.To != "" {
		return line
	}
	path, err := a.deviceServer()
	if err != nil {
		return line
	}
	all, err := a.listDevices(path)
	if err != nil {
		return line
	}
	library, _, ok := strings.Cut(al.Device, ":")
	for _, info := range all {
		if ok && info.Library == library && info.ID() != al.Device || !ok && strconv.Itoa(info.Number) != al.Device {
			al.To = strconv.Itoa(info.Number)
			break
		}
	}
	return al.String()
}

// listLimit is how long a list of devices may take: a driver that is sick may hang.
const listLimit = 20 * time.Second

// listDevices has the node's devices listed.
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
