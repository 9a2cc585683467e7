package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/offload/share"
)

// offloader is an offload process of a rank, or the place of one that was swapped out. It is guarded by the mu of devices.
type offloader struct {
	d        *devices
	id       uint64
	start    offload.Start   // what the rank has asked for last
	wishes   []offload.Order // of the program, not passed yet
	running  sync.WaitGroup  // the process is there
	swapping chan struct{}   // full while a user's wish is carried out

	cmd     *exec.Cmd
	control *os.File
	begins  *offload.Beginning // until its first word
	info    *offload.Info
	due     bool               // it was told to end, and has done all that belongs to that
	last    uint32             // the attempt of the program's order with which it ends
	lost    bool               // it was not, and has
	how     string             // it has ended
	attempt uint32             // of this agent's newest order
	awaits  sessions.EventType // the answer to that; 0: none
	hello   chan error         // closed or filled at the greeting; nil: nobody waits
	stored  *os.File           // what it had, while it is swapped out
	used    int64              // bytes of device memory in use when it was last paused
	model   string             // the name of its last device
	had     string             // the ID of that; "": it has had none
	guest   *guest             // its turns on a device that is shared; nil: it is not
	seat    *share.Held        // of one that has its device for itself
	where   string             // the capture for that
	file    string             // its newest capture for a checkpoint, which is removed when it is open
	round   uint32             // of the question what of it is valid at the host
	skip    []uint64           // the answer
	user    chan error         // to the caller that waits for a swap
	late    func(string)       // gets what the process waits for; nil: the head has asked
}

func newOffloader(d *devices, id uint64) *offloader {
	return &offloader{d: d, id: id, swapping: make(chan struct{}, 1)}
}

// own is the bit of an attempt that says that the order is this agent's and not the program's.
const own = 1 << 31

// device is the ID of the device that it has, or had last. A device that is only requested does not
// count: it may not be there.
func (o *offloader) device() string { return cmp.Or(o.had, o.start.Device) }

func (o *offloader) name() string {
	if o.cmd == nil {
		return "device " + o.device()
	}
	return fmt.Sprintf("device %s (process %d)", o.device(), o.pid())
}

func (o *offloader) pid() int {
	if o.cmd == nil || o.cmd.Process == nil {
		return 0
	}
	return o.cmd.Process.Pid
}

func (o *offloader) cause() string {
	if o.lost {
		return o.how
	}
	return ""
}

// start starts the process that was asked for. From a capture it begins paused; the file is its descriptor 5 if it has no name.
func (d *devices) start(o *offloader, ringOf string, capture *os.File) {
	o.due, o.lost, o.info, o.how, o.attempt, o.awaits, o.last = false, false, nil, "", own, 0, 0
	o.running.Add(1)
	if ringOf == "" {
		ringOf = fmt.Sprintf("/proc/%d/fd", d.r.pid)
	}
	go func() {
		defer o.running.Done()
		if err := o.launch(ringOf, capture); err != nil {
			o.stand()
			d.mu.Lock()
			defer d.mu.Unlock()
			o.greeted(err)
			if o.stored == nil {
				d.tell(o.id, offload.News{Answer: &offload.Answer{Op: offload.Hello, Error: err.Error()}, PID: -1})
			}
			d.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Due: true, Err: err.Error()})
			return
		}
		o.listen()
	}()
}

// launch makes the process.
func (o *offloader) launch(ringOf string, capture *os.File) error {
	a := o.d.a
	path, err := a.deviceServer()
	if err != nil {
		return err
	}
	ring, err := os.OpenFile(ringOf+"/"+strconv.Itoa(o.start.Ring), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("the shared file of rank %d: %w", o.d.r.rank, err)
	}
	defer ring.Close()
	output, err := os.OpenFile(ringOf+"/2", os.O_WRONLY, 0)
	if err != nil {
		output = os.Stderr
	} else {
		defer output.Close()
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.SetNonblock(fds[0], true)
	control, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	if err := o.takeSeat(ring); err != nil {
		control.Close()
		return err
	}
	cmd := exec.Command(path, "serve", "-device", o.start.Device)
	cmd.ExtraFiles = []*os.File{theirs, ring}
	if capture != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, capture)
		cmd.Args = append(cmd.Args, "-restore", "/proc/self/fd/5")
	} else if o.start.Restore != "" {
		cmd.Args = append(cmd.Args, "-restore", o.start.Restore)
	}
	o.sit(cmd)
	cmd.Env, cmd.Dir, cmd.Stderr = a.order.Env, string(a.order.Dir), output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	a.expect()
	a.run1(func() { err = cmd.Start() })
	a.born(func() {
		if err == nil {
			a.copies[cmd.Process.Pid] = true
		}
	})
	if err != nil {
		control.Close()
		return err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	o.cmd, o.control = cmd, control
	o.begins = offload.Begins(a.variable(offload.EnvOpen), o.start.Device, path, cmd.Process.Pid, func(why string) { o.hangs(cmd, why) })
	if o.d.over || o.due {
		cmd.Process.Kill()
	}
	return nil
}

// hangs ends a process that has not begun in time, and what it may have started in its place.
// listen tells those that wait for it.
func (o *offloader) hangs(cmd *exec.Cmd, why string) {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.cmd == cmd { // else it has ended
		o.how = why
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// deviceServer finds gorun-device: for the program's environment, beside the program, or beside gorun.
func (a *agent) deviceServer() (string, error) {
	self, _ := os.Executable()
	return offload.Server(a.variable(offload.EnvServer), a.variable("PATH"), string(a.order.Program), self)
}

// variable returns a variable of the program's environment.
func (a *agent) variable(name string) (value string) {
	for _, e := range a.order.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// listen hears the process until its end.
func (o *offloader) listen() {
	d := o.d
	buf := make([]byte, offload.MaxPacket)
	for {
		n, err := o.control.Read(buf)
		if err != nil || n == 0 {
			break
		}
		if a, err := offload.ParseAnswer(buf[:n]); err == nil {
			o.begins.Over()
			d.mu.Lock()
			o.answered(a)
			d.mu.Unlock()
		}
	}
	o.begins.Over()
	err := o.cmd.Wait()
	pid := o.pid()
	d.a.mu.Lock()
	delete(d.a.copies, pid)
	d.a.mu.Unlock()
	o.stand()
	d.mu.Lock()
	defer d.mu.Unlock()
	o.unfinished()
	if o.how == "" && err != nil {
		o.how = err.Error()
	}
	o.how = cmp.Or(o.how, "ended")
	o.control.Close()
	name := o.name()
	o.cmd = nil
	e := sessions.Event{Type: sessions.EvDied, ID: o.id, Due: o.due || o.info == nil, Err: o.how}
	if !e.Due {
		e.Err = fmt.Sprintf("the offload process of %s has ended: %s", name, o.how)
		o.how = e.Err
	}
	o.greeted(fmt.Errorf("the offload process of %s has ended before it had opened the device: %s", name, o.how))
	if !d.over {
		d.step(e)
	}
}

// greeted tells those that wait for the process that it has opened its device, or why not. The
// first report counts.
func (o *offloader) greeted(err error) {
	if o.hello != nil {
		o.hello <- err
		o.hello = nil
	}
}

// answered takes what the process says. Caller holds mu.
func (o *offloader) answered(a offload.Answer) {
	d := o.d
	if a.Op == "paused" {
		o.used = a.Memory
	}
	switch {
	case a.Op == offload.Begun:
	case a.Op == offload.Room:
		o.guest.asked(a)
	case a.Op == offload.Hello:
		if a.Error == "" {
			o.info, o.model, o.had = a.Info, a.Info.Name, a.Info.ID()
		}
		if o.hello != nil { // the rank was restored, and stands
			var err error
			if a.Error != "" {
				err = errors.New(a.Error)
			}
			o.greeted(err)
			return
		}
		if o.stored == nil || a.Error == "" {
			d.tell(o.id, offload.News{Answer: &a, PID: o.pid()})
		} else {
			o.how = a.Error
		}
		if a.Error == "" {
			d.step(sessions.Event{Type: sessions.EvStarted, ID: o.id})
		}
	case a.Attempt&own == 0:
		o.due = o.due || a.Op == "captured" && a.Error == "" && a.Attempt == o.last
		d.tell(o.id, offload.News{Answer: &a})
		if a.Op == "running" && a.Error == "" {
			d.step(sessions.Event{Type: sessions.EvTheirs, ID: o.id})
		}
	case a.Attempt == o.attempt && a.Op == "pausing" && o.late != nil:
		o.late(a.Error)
	case a.Attempt == o.attempt && a.Op == "pausing":
		d.late(o, a.Error)
	case a.Attempt == o.attempt && o.awaits != 0:
		e := sessions.Event{Type: o.awaits, ID: o.id}
		o.awaits = 0
		if a.Error != "" {
			e.Err = fmt.Sprintf("%s: %s", o.name(), a.Error)
			o.where = ""
		} else if e.Type == sessions.EvCaptured && o.where != "" {
			e.Err = o.leaves()
			o.due = true
		} else if e.Type == sessions.EvCaptured {
			e.Err = d.captured(o)
		}
		d.step(e)
	}
}

// send sends an order, and never blocks. A failed write means that the process has ended, which
// listen notices. A process that is stopped may leave the socket full: it is ended.
func (o *offloader) send(order offload.Order) {
	p, err := offload.Packet(order)
	if err != nil || o.control == nil {
		return
	}
	raw, err := o.control.SyscallConn()
	if err != nil {
		return
	}
	raw.Write(func(fd uintptr) bool {
		if _, err = unix.Write(int(fd), p); err == unix.EAGAIN {
			o.how = "it has stood still for too long to be told to " + order.Op
			o.cmd.Process.Kill()
		}
		return true
	})
}

// command sends an order of this agent.
func (o *offloader) command(order offload.Order, answer sessions.EventType) {
	o.attempt++
	order.Attempt, o.awaits = o.attempt, answer
	o.send(order)
}

// pass sends the oldest order of the program.
func (d *devices) pass(o *offloader) {
	order := o.wishes[0]
	o.wishes = o.wishes[1:]
	order.Attempt &^= own
	if order.End {
		o.last = order.Attempt
	}
	if o.cmd == nil {
		d.tell(o.id, offload.News{Answer: &offload.Answer{Op: "ended", Attempt: order.Attempt, Error: "there is no process"}})
		return
	}
	o.send(order)
}

// end ends the process.
func (o *offloader) end() {
	o.due = true
	if o.cmd != nil {
		o.cmd.Process.Kill()
	}
}
