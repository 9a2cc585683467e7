package main

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
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// task is what a number of processes do together.
type task struct {
	Work    string // one of works
	Procs   int
	Bytes   int // of a buffer
	Piece   int // of what a process puts into shared memory at once
	Edge    int // points along that of a plate
	Cube    int // points along the edge of a cube
	Time    time.Duration
	Batches int
	Rank    int // of the process that is told
}

// variable of the environment tells a process its task.
const variable = "GORUN_FLOOR"

func (t task) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and a name
	}
	return string(text)
}

func parseTask(text string) (t task, err error) {
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("%s=%q: %w", variable, text, err)
	}
	return t, nil
}

// times are the seconds of one repetition in each batch, and how many of them
// passed outside computation.
type times struct{ all, outside []float64 }

// measure starts the task's processes and waits for what they measure.
func (t task) measure(ctx context.Context) (m *times, err error) {
	ctx, cancel := context.WithCancelCause(ctx) // by the first that fails: the others wait for it, and do nothing else
	defer cancel(nil)
	runtime.LockOSThread() // with which the processes end
	defer runtime.UnlockOSThread()
	fd, err := unix.MemfdCreate("floor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	mem := os.NewFile(uintptr(fd), "floor")
	defer mem.Close()
	if err := mem.Truncate(memory); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var started sync.WaitGroup
	for t.Rank = range t.Procs {
		c := exec.CommandContext(ctx, self)
		c.Env = append(os.Environ(), variable+"="+t.String())
		c.Stderr, c.ExtraFiles = os.Stderr, []*os.File{mem}
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if t.Rank == 0 {
			c.Stdout = &out
		}
		if err := c.Start(); err != nil {
			cancel(err)
			break
		}
		started.Go(func() {
			if err := c.Wait(); err != nil {
				cancel(err)
			}
		})
	}
	started.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return readTimes(&out)
}

func readTimes(r io.Reader) (*times, error) {
	m := &times{}
	for s := bufio.NewScanner(r); s.Scan(); {
		var all, outside float64
		if _, err := fmt.Sscan(s.Text(), &all, &outside); err != nil {
			return nil, fmt.Errorf("%q: %w", s.Text(), err)
		}
		m.all, m.outside = append(m.all, all), append(m.outside, outside)
	}
	if m.all == nil {
		return nil, errors.New("it printed nothing")
	}
	return m, nil
}
