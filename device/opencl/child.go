package opencl

import (
	"os"
	"os/exec"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// own is an offload process that is a child of this program, with this end of its socket. It ends when its end of the socket does, and so with
// this program.
type own struct {
	cmd     *exec.Cmd
	control *os.File
	begins  *offload.Beginning
	late    atomic.Pointer[string] // why it was ended that had not begun in time
}

// ownChild starts one.
func ownChild(s offload.Start, p *process) (child, error) {
	path, err := server()
	if err == nil && path == "" {
		err = offload.ErrNoServer
	}
	if err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fds[0], true) // so that the reader ends when it is closed
	c := &own{control: os.NewFile(uintptr(fds[0]), "control")}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	ring, err := unix.FcntlInt(uintptr(s.Ring), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		c.control.Close()
		return nil, err
	}
	shared := os.NewFile(uintptr(ring), "ring")
	defer shared.Close()
	c.cmd = exec.Command(path, "serve", "-device", s.Device)
	if s.Restore != "" {
		c.cmd.Args = append(c.cmd.Args, "-restore", s.Restore)
	}
	c.cmd.Stderr = os.Stderr
	c.cmd.ExtraFiles = []*os.File{theirs, shared}
	if err := c.cmd.Start(); err != nil {
		c.control.Close()
		return nil, err
	}
	c.begins = offload.Begins(os.Getenv(offload.EnvOpen), s.Device, path, c.cmd.Process.Pid, func(why string) {
		c.late.Store(&why)
		c.cmd.Process.Kill()
	})
	go c.watch(p)
	return c, nil
}

// watch passes answers on, and notices when the process ends.
func (c *own) watch(p *process) {
	buf := make([]byte, offload.MaxPacket)
	for {
		n, err := c.control.Read(buf)
		if err != nil || n == 0 {
			break
		}
		a, err := offload.ParseAnswer(buf[:n])
		if err != nil {
			continue
		}
		if c.begins.Over(); a.Op != offload.Begun {
			p.Heard(a, c.cmd.Process.Pid)
		}
	}
	c.begins.Over()
	c.cmd.Wait()
	c.control.Close()
	how := c.cmd.ProcessState.String()
	if late := c.late.Load(); late != nil {
		how = *late
	}
	p.Gone(how)
}

func (c *own) order(o offload.Order) error {
	packet, err := offload.Packet(o)
	if err == nil {
		_, err = c.control.Write(packet)
	}
	return err
}

func (c *own) end() {
	c.control.Close()
	c.cmd.Process.Kill()
}

// agents is an offload process of this rank's agent.
type agents struct {
	host offload.Host
	id   uint64
}

// agentsChild asks for one. A process that takes the place of another of its ring has the same number.
func agentsChild(h offload.Host, s offload.Start, p *process) (child, error) {
	c := &agents{h, p.of.number}
	return c, h.Start(c.id, s, p)
}

func (c *agents) order(o offload.Order) error { return c.host.Order(c.id, o) }

func (c *agents) end() { c.host.End(c.id) }
