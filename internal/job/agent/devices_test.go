package agent

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// A device that is lost is told of until the program has closed it.
func TestLostUntilClosed(t *testing.T) {
	conns := [2][2]*oob.Conn{}
	for i := range conns {
		ours, theirs, err := oob.Pair()
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range []*int{&ours, &theirs} {
			if conns[i][k], err = oob.NewConn(*f); err != nil {
				t.Fatal(err)
			}
			defer conns[i][k].Close()
		}
	}
	a := newAgent(0, conns[0][0])
	d := newDevices(a, &rankProc{rank: 3, down: wire.NewQueue(conns[1][0])})
	d.procs[7] = &offloader{d: d, id: 7, start: offload.Start{Device: "opencl:0"}, lost: true, how: "killed"}
	told := func() string {
		m, err := conns[0][1].Recv()
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Data)
	}
	d.tellHead()
	if text := told(); !strings.Contains(text, "killed") {
		t.Errorf("lost: %s", text)
	}
	d.wish(&oob.Msg{A: 7, Data: wire.JSON(offload.Wish{Number: 1, End: true})})
	if d.told != "null" {
		t.Fatalf("closed: %s", d.told)
	}
	if text := told(); text != "null" {
		t.Errorf("closed: %s", text)
	}
}

// newDevicesOf are those of a rank whose agent does nothing.
func newDevicesOf(rank int) *devices {
	a := &agent{}
	a.order.Start = map[int]oob.StartConfig{rank: {Job: "a job"}}
	return newDevices(a, &rankProc{rank: rank})
}

// A process takes its seat, and leaves it, while the agent passes a frame on: that has the agent's lock, and that of the rank's devices. Other jobs may keep it
// waiting for the folder of the seats.
func TestSeatBesideTheAgent(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	o, other := &offloader{d: newDevicesOf(3)}, &offloader{d: newDevicesOf(4)}
	for _, one := range []*offloader{o, other} {
		one.start.Device, one.d.a.order.Sharing = "opencl:0", devicesExclusive
		one.d.a.mu.Lock()
		defer one.d.a.mu.Unlock()
		one.d.mu.Lock()
		defer one.d.mu.Unlock()
	}
	if err := o.takeSeat(nil); err != nil {
		t.Fatal(err)
	}
	if err := other.takeSeat(nil); err == nil || !strings.Contains(err.Error(), "rank 3 of job a job has it for itself") {
		t.Errorf("a second one: %v", err)
	}
	o.stand()
	if err := other.takeSeat(nil); err != nil {
		t.Error(err)
	}
	other.stand()
}

// A swap-out that is refused as a turn begins or ends leaves the turns as they are: the process comes in again.
func TestRefusedSwapLeavesTheTurns(t *testing.T) {
	o := &offloader{d: newDevicesOf(3), id: 7, guest: &guest{}, user: make(chan error, 1)}
	if err := o.goOut(0); err != errSwapping || o.guest.byUser {
		t.Errorf("%v; it is to stay out: %v", err, o.guest.byUser)
	}
}

// What was captured is given back when the process is in, and not later: it could be out again by then, with another capture.
func TestCaptureIsGivenBackAtOnce(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	d := newDevicesOf(3)
	o := &offloader{d: d, id: 7, stored: f, cmd: &exec.Cmd{}, user: make(chan error, 1)}
	d.procs[7] = o
	told := o.user
	d.do(sessions.Action{Type: sessions.ActSwapped, ID: 7})
	if err := <-told; err != nil || o.stored != nil || o.size() != 0 {
		t.Errorf("%v, %v", err, o.stored)
	}
}

// The agent waits for no process that reads no orders, as one that is stopped: it ends it.
func TestProcessThatStandsStill(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &offloader{d: newDevicesOf(3), control: os.NewFile(uintptr(fds[0]), "control"), cmd: cmd}
	defer o.control.Close()
	for o.how == "" {
		o.send(offload.Order{Op: offload.OrderPause})
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" || !strings.Contains(o.how, "told to pause") {
		t.Errorf("%v: %s", err, o.how)
	}
}

// What a process has left that has ended while it was captured is removed, be it for a swap or for a checkpoint.
func TestUnfinishedCaptures(t *testing.T) {
	dir := t.TempDir()
	o := &offloader{where: dir + "/swap", file: dir + "/checkpoint"}
	for _, name := range []string{o.where, o.file + ".123" + store.PartSuffix} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.unfinished()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Who wants a process on another device while it comes in is refused, and has not changed where that is.
func TestChosenDeviceStays(t *testing.T) {
	o := newOffloader(newDevicesOf(3), 7)
	o.start.Device, o.user = "opencl:1", make(chan error, 1)
	if err := o.comeBack("opencl:2"); err != errSwapping || o.start.Device != "opencl:1" {
		t.Errorf("%v; it is to be on %s", err, o.start.Device)
	}
}
