// Package subreaper distinguishes the children that this process has started from orphans: those that
// have come to it because their parent has died. It ends the orphans. A manager that starts agents
// as children needs it, as what a dead agent leaves comes to this process.
package subreaper

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/proc"
)

var (
	mu  sync.Mutex
	own = map[int]bool{}
)

// Adopt has the kernel make this process the parent of its descendants' orphans.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	return nil
}

// Start starts a child that is no orphan. Wait, called once, waits for it.
func Start(cmd *exec.Cmd) error {
	mu.Lock()
	defer mu.Unlock()
	err := cmd.Start()
	if err == nil {
		own[cmd.Process.Pid] = true
	}
	return err
}

// StartHere is Start for a child that asks for a signal when its parent dies. The kernel means the
// thread that has started it, so all such children have one thread, which stays.
func StartHere(cmd *exec.Cmd) (err error) {
	once.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range starter {
				f()
			}
		}()
	})
	done := make(chan struct{})
	starter <- func() { err = Start(cmd); close(done) }
	<-done
	return err
}

var (
	once    sync.Once
	starter = make(chan func())
)

// Wait waits for a child that Start has started.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	delete(own, cmd.Process.Pid)
	return err
}

// Bury ends and reaps all orphans: each with its group if it leads one, as ranks do.
func Bury() {
	mu.Lock()
	defer mu.Unlock()
	for {
		var left []int
		for _, pid := range proc.Children() {
			if !own[pid] {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			if group, err := syscall.Getpgid(pid); err == nil && group == pid {
				syscall.Kill(-pid, syscall.SIGKILL)
			}
		}
		proc.End(left)
	}
}
