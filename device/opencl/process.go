package opencl

import (
	"context"
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

// process is an offload process, with the rank's end of its socket.
type process struct {
	cmd     *exec.Cmd
	control *os.File
	info    provider.Info
	ending  atomic.Bool   // it was told to end
	gone    chan struct{} // closed when it has ended

	mu       sync.Mutex // of who gives orders
	attempt  uint32
	answers  chan offload.Answer
	answered map[uint32]offload.Answer // that nobody has asked for yet
}

// spawn starts a process for a ring, and waits until it has opened the device. It ends when its end of the socket does, and so with
// this program. With a capture it begins with what that holds, paused, which may take long. onEnd is called when it has ended. If ctx ends before, so does
// the process.
func spawn(ctx context.Context, index int, ring *os.File, capture string, onEnd func(*process)) (*process, error) {
	path, err := server()
	if err == nil && path == "" {
		err = errors.New("there is no gorun-device beside the program, in PATH, or at GORUN_DEVICE_SERVER: build it from cmd/gorun-device")
	}
	if err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fds[0], true) // so that reads of it have deadlines
	p := &process{control: os.NewFile(uintptr(fds[0]), "control"), gone: make(chan struct{}), answers: make(chan offload.Answer, 16), answered: map[uint32]offload.Answer{}}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	p.cmd = exec.Command(path, "serve", "-device", strconv.Itoa(index))
	if capture != "" {
		p.cmd.Args = append(p.cmd.Args, "-restore", capture)
	}
	p.cmd.Stderr = os.Stderr
	p.cmd.ExtraFiles = []*os.File{theirs, ring}
	if err := p.cmd.Start(); err != nil {
		p.control.Close()
		return nil, err
	}
	if err := p.hello(ctx, index); err != nil {
		p.control.Close()
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	go p.watch(onEnd)
	return p, nil
}

// hello waits for the first answer.
func (p *process) hello(ctx context.Context, index int) error {
	begin := time.Now()
	stop := context.AfterFunc(ctx, func() { p.control.SetReadDeadline(begin) })
	buf := make([]byte, offload.MaxPacket)
	n, err := p.control.Read(buf)
	if !stop() {
		return fmt.Errorf("it has not opened the device within %v: %w", time.Since(begin).Round(time.Millisecond), context.Cause(ctx))
	}
	if err != nil {
		return errors.New("it has ended before it had opened the device")
	}
	a, err := offload.ParseAnswer(buf[:n])
	switch {
	case err != nil:
		return err
	case a.Error != "":
		return errors.New(a.Error)
	case a.Op != offload.Hello || a.Version != offload.Version || a.Info == nil:
		return fmt.Errorf("it speaks version %d, this program %d: build both of the same gorun", a.Version, offload.Version)
	}
	p.info = info(index, *a.Info)
	return nil
}

// watch passes answers on, and notices when the process ends.
func (p *process) watch(onEnd func(*process)) {
	buf := make([]byte, offload.MaxPacket)
	for {
		n, err := p.control.Read(buf)
		if err != nil || n == 0 {
			break
		}
		if a, err := offload.ParseAnswer(buf[:n]); err == nil {
			select {
			case p.answers <- a:
			default: // nobody has asked for so many
			}
		}
	}
	p.cmd.Wait()
	close(p.gone)
	onEnd(p) // see stays
}

// order sends an order and returns its attempt, a new one unless it belongs to one.
func (p *process) order(o offload.Order) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Attempt == 0 {
		p.attempt++
		o.Attempt = p.attempt
	}
	packet, err := offload.Packet(o)
	if err == nil {
		if _, err = p.control.Write(packet); err != nil {
			err = fmt.Errorf("%w: its offload process takes no orders: %w", provider.ErrLost, err)
		}
	}
	return o.Attempt, err
}

// answer waits for the answer to an attempt.
func (p *process) answer(ctx context.Context, attempt uint32) (offload.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if a, ok := p.answered[attempt]; ok {
			delete(p.answered, attempt)
			if a.Error != "" {
				return a, errors.New(a.Error)
			}
			return a, nil
		}
		var a offload.Answer
		select {
		case a = <-p.answers:
		default:
			select {
			case a = <-p.answers:
			case <-p.gone:
				if len(p.answers) == 0 {
					return a, fmt.Errorf("%w: its offload process has ended (%v)", provider.ErrLost, p.cmd.ProcessState)
				}
				continue
			case <-ctx.Done():
				return a, ctx.Err()
			}
		}
		p.answered[a.Attempt] = a
	}
}

// obey sends an order and waits for its answer.
func (p *process) obey(ctx context.Context, o offload.Order) (offload.Answer, error) {
	attempt, err := p.order(o)
	if err != nil {
		return offload.Answer{}, err
	}
	return p.answer(ctx, attempt)
}

// end ends the process, which has nothing left to do.
func (p *process) end() {
	p.ending.Store(true)
	p.control.Close()
	p.cmd.Process.Kill()
	<-p.gone
}
