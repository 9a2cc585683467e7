package opencl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// patience is how long an offload process may take to load the vendor's library.
const patience = time.Minute

// device is the rank's end of a ring.
type device struct {
	id      string
	info    provider.Info
	cmd     *exec.Cmd
	control *os.File

	mapped sync.RWMutex // held to read by who looks at s; Close unmaps
	s      *offload.Shared
	mem    []byte
	gone   chan struct{}         // closed when the process has ended
	lost   atomic.Pointer[error] // why nothing more comes: the process has ended, or the device was closed

	put  uint64 // newest ticket; of the caller of commands
	last uint64 // newest number of a memory or kernel
	room staging
}

// start starts the process and waits until it has opened the device.
func start(path string, index int) (*device, error) {
	d := &device{id: id(index), gone: make(chan struct{})}
	fd, err := unix.MemfdCreate("gorun-device", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "gorun-device")
	defer file.Close()
	if err := d.share(fd); err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	if err := d.spawn(path, index, file); err != nil {
		unix.Munmap(d.mem)
		return nil, err
	}
	if err := d.hello(index); err != nil {
		d.control.Close()
		d.cmd.Process.Kill()
		d.cmd.Wait()
		unix.Munmap(d.mem)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	go d.watch()
	return d, nil
}

// share makes the file that both sides map.
func (d *device) share(fd int) error {
	if err := unix.Ftruncate(fd, offload.Size); err != nil {
		return err
	}
	mem, err := unix.Mmap(fd, 0, offload.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if d.s, err = offload.Format(mem); err != nil {
		unix.Munmap(mem)
		return err
	}
	d.mem = mem
	d.s.Epoch().Add(1)
	d.room.all = d.s.Staging()
	return nil
}

// spawn starts the process. It ends when its end of the socket does, and so with this program.
func (d *device) spawn(path string, index int, file *os.File) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.SetNonblock(fds[0], true) // so that reads of it have deadlines
	d.control = os.NewFile(uintptr(fds[0]), "control")
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	d.cmd = exec.Command(path, "serve", "-device", strconv.Itoa(index))
	d.cmd.Stderr = os.Stderr
	d.cmd.ExtraFiles = []*os.File{theirs, file}
	if err := d.cmd.Start(); err != nil {
		d.control.Close()
		return err
	}
	return nil
}

// hello waits for the first answer.
func (d *device) hello(index int) error {
	if err := d.control.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	p := make([]byte, offload.MaxPacket)
	n, err := d.control.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it has not opened the device within %v", patience)
	}
	if err != nil {
		return errors.New("it has ended before it had opened the device")
	}
	a, err := offload.ParseAnswer(p[:n])
	switch {
	case err != nil:
		return err
	case a.Error != "":
		return errors.New(a.Error)
	case a.Op != offload.Hello || a.Version != offload.Version || a.Info == nil:
		return fmt.Errorf("it speaks version %d, this program %d: build both of the same gorun", a.Version, offload.Version)
	}
	d.info = info(index, *a.Info)
	return d.control.SetReadDeadline(time.Time{})
}

// watch notices when the process ends.
func (d *device) watch() {
	p := make([]byte, offload.MaxPacket)
	for {
		if n, err := d.control.Read(p); err != nil || n == 0 {
			break
		}
	}
	d.cmd.Wait()
	err := fmt.Errorf("device %s: %w: its offload process, pid %d, has ended (%v): restart from a checkpoint, or open it anew", d.id, provider.ErrLost, d.cmd.Process.Pid, d.cmd.ProcessState)
	d.lost.CompareAndSwap(nil, &err)
	close(d.gone)
}

// Close waits for the commands that were put, and ends the process.
func (d *device) Close() error {
	closed := fmt.Errorf("device %s: %w", d.id, provider.ErrClosed)
	if e := d.lost.Load(); e != nil && errors.Is(*e, provider.ErrClosed) {
		return nil
	}
	d.await(d.put)
	if !d.lost.CompareAndSwap(nil, &closed) {
		d.lost.Store(&closed)
	}
	d.control.Close()
	d.cmd.Process.Kill() // all it had to do is done
	<-d.gone
	d.mapped.Lock()
	defer d.mapped.Unlock()
	d.s = nil
	return unix.Munmap(d.mem)
}
