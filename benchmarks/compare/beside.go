package main

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// endless is a program that computes and never waits.
var endless = []string{"sh", "-c", "while :; do :; done"}

// startBeside starts n endless loops, which take their share of the machine from all contenders until stop is
// called. They do not outlive this process.
func startBeside(n int) (stop func() error, err error) {
	var loops []*exec.Cmd
	kept := make(chan struct{})
	stop = func() error {
		defer close(kept)
		for _, l := range loops {
			if err := l.Process.Kill(); err != nil {
				return err
			}
			_ = l.Wait() // killed
		}
		return nil
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ends them with the thread that has started them
		defer runtime.UnlockOSThread()
		for range n {
			l := exec.Command(endless[0], endless[1:]...)
			l.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := l.Start(); err != nil {
				started <- err
				return
			}
			loops = append(loops, l)
		}
		close(started)
		<-kept
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}
