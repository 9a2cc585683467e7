package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/subreaper"
)

// What a keeper says first on its standard output, each a line of its own. Behind the second and
// third follows what is there instead.
const (
	KeeperReady   = "gorun keeper: ready"
	KeeperDiffers = "gorun keeper: another gorun: " // its digest is not that asked for
	KeeperMissing = "gorun keeper: missing: "       // said by a manager's own script
)

// mostNoise is how much a login may print before the keeper speaks.
const mostNoise = 64 << 10

// StartError says that a client has started no keeper.
type StartError struct {
	Differs bool   // there is another gorun
	Missing bool   // there is no gorun
	There   string // then what is there instead, for people
	Said    string // what was printed before that, to both outputs, cut to what a person reads
	All     string // the same with more of it, to look for what a client is known to say
	Err     error  // how the client ended, or why it was ended; nil if it said what is there
}

func (e *StartError) Error() string {
	var parts []string
	switch {
	case e.Differs:
		parts = append(parts, "there is another gorun: "+e.There)
	case e.Missing:
		parts = append(parts, "there is no gorun: "+e.There)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if e.Said != "" {
		parts = append(parts, "it said: "+e.Said)
	}
	return strings.Join(parts, "; ")
}

func (e *StartError) Unwrap() error { return e.Err }

// Exec starts a client that starts a keeper: cmd, which has only its path, arguments and
// environment. The client has a process group of its own and ends with this process. Its standard
// input and output are two pipes: one socket would show no end. Exec gives the ticket to the keeper
// when that is ready, and then returns. An error is a *StartError if the client ran.
func Exec(ctx context.Context, cmd *exec.Cmd, ticket []byte) (Process, error) {
	return ExecAsking(ctx, cmd, func([]byte) ([]byte, error) { return ticket, nil })
}

// ExecAsking is Exec with a ticket that depends on what the client has said on standard error.
func ExecAsking(ctx context.Context, cmd *exec.Cmd, ticket func(said []byte) ([]byte, error)) (Process, error) {
	p := &process{cmd: cmd, over: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &p.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // even if another process still holds its standard error
	if err := subreaper.StartHere(cmd); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { p.Kill() })
	noise, word, err := readWord(out)
	if err == nil && word == KeeperReady {
		var line []byte
		if line, err = ticket(p.said.bytes()); err == nil {
			_, err = in.Write(append(bytes.TrimSpace(line), '\n'))
		}
	}
	go func() {
		io.Copy(io.Discard, out) // nothing more comes, and no writer may wait for a reader
		p.err = subreaper.Wait(cmd)
		close(p.over)
	}()
	if err == nil && word == KeeperReady && stop() {
		return p, nil
	}
	stop()
	return nil, p.failed(ctx, noise, word, err)
}

// failed ends a client that has started no keeper, and says why.
func (p *process) failed(ctx context.Context, noise, word string, err error) error {
	failure := &StartError{}
	switch {
	case strings.HasPrefix(word, KeeperDiffers):
		failure.Differs, failure.There = true, word[len(KeeperDiffers):]
	case strings.HasPrefix(word, KeeperMissing):
		failure.Missing, failure.There = true, word[len(KeeperMissing):]
	default:
		if !errors.Is(err, io.EOF) { // else it ends by itself, and says how
			p.Kill()
		}
	}
	select {
	case <-p.over:
	case <-time.After(2 * time.Second):
		p.Kill()
		<-p.over
	}
	switch {
	case ctx.Err() != nil:
		failure.Err = context.Cause(ctx)
	case failure.Differs || failure.Missing:
	case errors.Is(err, errNoise):
		failure.Err = err
	case p.err != nil:
		failure.Err = p.err
	case err != nil && !errors.Is(err, io.EOF):
		failure.Err = err
	default:
		failure.Err = errors.New("it ended without starting gorun")
	}
	failure.All = string(p.said.bytes()) + "\n" + noise
	failure.Said = brief(failure.All)
	return failure
}

// errNoise ends a login that prints without end.
var errNoise = fmt.Errorf("it printed %d KB and no gorun was started: have its start-up files (.bashrc and the like) print nothing", mostNoise>>10)

// readWord reads a client's output up to a keeper's first word. It returns what came before.
func readWord(r io.Reader) (noise, word string, err error) {
	var buf []byte
	chunk := make([]byte, 4<<10)
	for {
		n, err := r.Read(chunk)
		buf = append(buf, chunk[:n]...)
		for _, w := range []string{KeeperReady, KeeperDiffers, KeeperMissing} {
			if before, rest, ok := strings.Cut("\n"+string(buf), "\n"+w); ok {
				if line, _, whole := strings.Cut(rest, "\n"); whole {
					return strings.TrimPrefix(before, "\n"), w + line, nil
				}
			}
		}
		switch {
		case err != nil:
			return string(buf), "", err
		case len(buf) > mostNoise:
			return string(buf), "", errNoise
		}
	}
}

// brief cuts a client's words to what a person reads: the last lines.
func brief(s string) string {
	const lines, bytes = 6, 800
	all := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	s = strings.ToValidUTF8(strings.Trim(strings.Join(all, " | "), " |"), "?")
	if len(s) > bytes {
		s = "..." + strings.ToValidUTF8(s[len(s)-bytes:], "")
	}
	return s
}

// process is a client that has started a keeper.
type process struct {
	cmd  *exec.Cmd
	said tail
	over chan struct{} // closed when it has ended
	err  error         // then how
}

// Kill ends the client with the processes that it has started here, such as a proxy of ssh.
func (p *process) Kill() error {
	select {
	case <-p.over:
		return nil
	default:
	}
	return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

func (p *process) Wait() error {
	<-p.over
	said := brief(string(p.said.bytes()))
	switch {
	case said == "":
		return p.err
	case p.err == nil:
		return errors.New(said)
	}
	return fmt.Errorf("%w: %s", p.err, said)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf)
}

// Client runs a client that does something else than start a keeper, such as to copy a file. It ends
// with this process, and when ctx does.
func Client(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := subreaper.StartHere(cmd); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := subreaper.Wait(cmd)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}
