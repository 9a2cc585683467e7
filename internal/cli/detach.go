package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/system/alive"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// A detached job is that of another gorun, in a session of its own, which the first one starts with the same arguments. It inherits a pipe, and
// writes the job's id there when the job is up. Until then its output is kept, in a file that gets its name from the id.

// detachedVar tells the second gorun which descriptor the pipe is.
const detachedVar = "GORUN_DETACHED"

// detach starts a job in the background if -detach asks for that. yes: the status is that of this gorun, which is not the job's. Else this
// process is the job's gorun.
func (o *options) detach(std stdio) (status int, yes bool) {
	if !o.detached {
		return 0, false
	}
	if fd, err := strconv.Atoi(os.Getenv(detachedVar)); err == nil {
		os.Unsetenv(detachedVar)
		syscall.CloseOnExec(fd)
		to := os.NewFile(uintptr(fd), "who waits for the job")
		o.Up = func(id string) {
			o.job = id
			o.kept(std, &detached{Process: alive.This()})
			io.WriteString(to, id+"\n")
			to.Close()
		}
		return 0, false
	}
	id, out, err := startDetached()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		io.WriteString(std.err, out)
		return statusOf(ended), true
	case err != nil:
		return failed(std, fmt.Errorf("-detach: %w", err)), true
	}
	fmt.Fprintf(std.err, "gorun: the job's output goes to %s\n", out)
	fmt.Fprintln(std.out, id)
	return spec.ExitOK, true
}

// kept keeps for gorun wait how the detached job is.
func (o *options) kept(std stdio, d *detached) {
	if err := d.keep(o.job); err != nil {
		fmt.Fprintf(std.err, "gorun: gorun wait will not know how this job has ended: %v\n", err)
	}
}

// ended is what is kept of a detached job that has ended.
func (o *options) ended(code int) *detached {
	d := &detached{Status: &code}
	if path, err := os.Readlink("/proc/self/fd/1"); err == nil && filepath.IsAbs(path) {
		d.Output = rawstring.String(path)
	}
	if root, err := ckptDir(o.CkptDir); err == nil && o.CR != "" {
		d.Folder = rawstring.String(root)
	}
	return d
}

// startDetached starts the job's gorun, and returns the job's id when it is up, with the file of its output. If it does not come up the error
// is that of the process, and out what it has said.
func startDetached() (id, out string, err error) {
	file, err := os.CreateTemp(".", "gorun-*.out")
	if err != nil {
		return "", "", fmt.Errorf("a file for its output: %w: go to a folder where you may write", err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return "", "", errors.Join(err, os.Remove(file.Name()))
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = file, file, []*os.File{w}
	cmd.Env = append(os.Environ(), detachedVar+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return "", "", errors.Join(err, os.Remove(file.Name()))
	}
	defer passSignals(cmd.Process)()
	line, _ := bufio.NewReader(r).ReadString('\n')
	if id = strings.TrimSuffix(line, "\n"); id != "" {
		out, err = nameOutput(file.Name(), id)
		return id, out, err
	}
	err = cmd.Wait()
	said, rerr := os.ReadFile(file.Name())
	if err == nil {
		err = errors.New("it has ended without a word on its job")
	}
	return "", string(said), errors.Join(err, rerr, os.Remove(file.Name()))
}

// passSignals passes on what ends this process while the job is not up.
func passSignals(p *os.Process) (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for range c {
			p.Signal(syscall.SIGTERM)
		}
	}()
	return func() { signal.Stop(c); close(c) }
}

// nameOutput gives the file of a job's output its name. Each restart has one of its own.
func nameOutput(file, id string) (string, error) {
	for n := 1; ; n++ {
		name := spec.OutputName(id, n)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, os.Rename(file, name)
		} else if err != nil {
			return "", err
		}
	}
}

// statusOf is the exit status of a process, as a shell tells it.
func statusOf(e *exec.ExitError) int {
	ws := e.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return spec.ExitSignalBase + int(ws.Signal())
	}
	return ws.ExitStatus()
}
