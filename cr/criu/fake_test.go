package criu

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
	"golang.org/x/sys/unix"
)

// The test binary is also the criu that most tests call, and the process that is
// imaged; this variable says which.
const roleVar = "GORUN_CRIU_TEST"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	switch {
	case role == "rank":
		rank()
	case role != "":
		os.Exit(fake(role, os.Args[1:]))
	default:
		os.Exit(m.Run())
	}
}

// rank counts the lines it gets on descriptor 3 and answers with the count, and
// says so on its output.
func rank() {
	agent := os.NewFile(3, "agent")
	lines := bufio.NewScanner(agent)
	for n := 1; lines.Scan(); n++ {
		fmt.Printf("line %d\n", n)
		fmt.Fprintf(agent, "%s %d\n", lines.Text(), n)
	}
}

// fake is a criu that behaves as role says.
func fake(role string, args []string) int {
	switch args[0] {
	case "--version":
		fmt.Println("Version: 4.2\nGitID: none")
		return 0
	case "check":
		if role != "broken" {
			fmt.Println("Looks good.")
			return 0
		}
		fmt.Fprintln(os.Stderr, "Error (criu/util.c:642): exited, status=1\nError (criu/util.c:642): exited, status=1\nWarn  (criu/x.c:1): no matter\nError (criu/vdso.c:381): vdso: Unexpected rt vDSO area bounds")
		return 1
	case "swrk":
		fd, _ := strconv.Atoi(args[1])
		w := &worker{fd: fd}
		return w.serve(role)
	}
	return 2
}

// worker speaks criu's protocol on a socket.
type worker struct {
	fd  int
	req rpc.CriuReq
}

func (w *worker) serve(role string) int {
	if err := w.receive(); err != nil {
		fmt.Fprintln(os.Stderr, "fake criu:", err)
		return 1
	}
	o := w.req.GetOpts()
	log := w.path(o.GetWorkDirFd(), o.GetLogFile())
	err := w.obey(o, role)
	if role == "failing" {
		err = fmt.Errorf("Can't lookup mount=42")
	}
	if err != nil {
		os.WriteFile(log, []byte(fmt.Sprintf("(00.01) Warn  (criu/y.c:7): so what\n(00.02)   77: Error (criu/x.c:12): %v\n", err)), 0o600)
		w.send(&rpc.CriuResp{Type: w.req.Type, Success: ptr(false), CrErrno: ptr(int32(5)), CrErrmsg: ptr("bad")})
		return 1
	}
	w.send(&rpc.CriuResp{Type: w.req.Type, Success: ptr(true)})
	return 0
}

func (w *worker) obey(o *rpc.CriuOpts, role string) error {
	if !o.GetTcpClose() || !o.GetShellJob() || o.GetTcpEstablished() {
		return fmt.Errorf("wrong options: %v %v", o.GetTcpClose(), o.GetShellJob())
	}
	switch w.req.GetType() {
	case rpc.CriuReqType_DUMP:
		return w.dump(o)
	case rpc.CriuReqType_RESTORE:
		return w.restore(o, role)
	}
	return fmt.Errorf("request %v", w.req.GetType())
}

func (w *worker) dump(o *rpc.CriuOpts) error {
	if !o.GetLeaveRunning() || len(o.GetExternal()) != 1 {
		return fmt.Errorf("leave running %v, external %q", o.GetLeaveRunning(), o.GetExternal())
	}
	if err := w.notify("pre-dump", 0); err != nil {
		return err
	}
	files := map[string]string{"inventory.img": "magic", "pages-1.img": string(make([]byte, 3<<20)) + "x", "empty.img": ""}
	for name, data := range files {
		if err := os.WriteFile(w.path(o.GetImagesDirFd(), name), []byte(data), 0o600); err != nil {
			return err
		}
	}
	return w.notify("post-dump", 0)
}

// restore tells each inherited descriptor the name it is for.
func (w *worker) restore(o *rpc.CriuOpts, role string) error {
	if !o.GetRstSibling() {
		return fmt.Errorf("not a sibling")
	}
	b, err := os.ReadFile(w.path(o.GetImagesDirFd(), "pages-1.img"))
	if role != "restoring" && (err != nil || len(b) != 3<<20+1 || b[3<<20] != 'x') {
		return fmt.Errorf("pages: %d bytes, %v", len(b), err)
	}
	for _, i := range o.GetInheritFd() {
		// Standard input is for reading.
		if _, err := unix.Write(int(i.GetFd()), []byte(i.GetKey()+"\n")); err != nil && err != unix.EBADF {
			return fmt.Errorf("inherited %s: %w", i.GetKey(), err)
		}
	}
	return w.notify("post-restore", os.Getpid())
}

func (w *worker) path(fd int32, name string) string {
	return filepath.Join("/proc", strconv.Itoa(os.Getppid()), "fd", strconv.Itoa(int(fd)), name)
}

func (w *worker) notify(script string, pid int) error {
	err := w.send(&rpc.CriuResp{Type: ptr(rpc.CriuReqType_NOTIFY), Success: ptr(true), Notify: &rpc.CriuNotify{Script: &script, Pid: ptr(int32(pid))}})
	if err != nil {
		return err
	}
	kind := w.req.Type
	err = w.receive()
	if err == nil && !w.req.GetNotifySuccess() {
		err = fmt.Errorf("script %s failed", script)
	}
	w.req.Type = kind
	return err
}

func (w *worker) receive() error {
	buf := make([]byte, 1<<16)
	n, err := unix.Read(w.fd, buf)
	if err != nil {
		return err
	}
	w.req = rpc.CriuReq{}
	return w.req.UnmarshalVT(buf[:n])
}

func (w *worker) send(r *rpc.CriuResp) error {
	b, err := r.MarshalVT()
	if err != nil {
		return err
	}
	_, err = unix.Write(w.fd, b)
	return err
}
