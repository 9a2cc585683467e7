package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/internal/job/control"
)

// limit is how long any one step may take before the benchmark gives up.
const limit = 5 * time.Minute

// process is a running gorun with its load.
type process struct {
	cmd    *exec.Cmd
	cancel func()
	lines  chan string // what rank 0 prints; closed at its end
	errs   bytes.Buffer
	ended  chan struct{}
	status error // of gorun, once it has ended
	once   sync.Once
	stdin  io.WriteCloser
	record *control.Record
}

// start begins gorun with args.
func start(ctx context.Context, world *bench.World, args ...string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{cancel: cancel, lines: make(chan string, 64), ended: make(chan struct{})}
	p.cmd = bench.Command(ctx, nil, append([]string{world.Gorun}, args...)...)
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	go p.read(out)
	return p, nil
}

func (p *process) read(out io.Reader) {
	for r := bufio.NewReader(out); ; { // not a Scanner: 64 ranks make long lines
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		p.lines <- strings.TrimSuffix(line, "\n")
	}
	close(p.lines)
	p.status = p.cmd.Wait()
	close(p.ended)
}

// line waits for the next line of rank 0 that begins with word and returns the
// rest of it.
func (p *process) line(word string) (string, error) {
	timeout := time.After(limit)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				<-p.ended
				return "", fmt.Errorf("the job ended early (%w): %s", cmp.Or(p.status, errWell), p.errs.String())
			}
			if rest, ok := strings.CutPrefix(text, word); ok {
				return strings.TrimSpace(rest), nil
			}
		case <-timeout:
			return "", fmt.Errorf("no %q from the job after %v", word, limit)
		}
	}
}

// errWell is the status of a gorun that did not fail.
var errWell = errors.New("exit status 0")

func (p *process) until(word string) error {
	_, err := p.line(word)
	return err
}

// kill ends the job and waits until nothing of it runs.
func (p *process) kill() {
	p.once.Do(func() {
		// The head ends its ranks when it is told to end; the group is killed
		// only if it does not.
		p.cmd.Process.Signal(syscall.SIGTERM)
		go func() {
			for range p.lines {
			}
		}()
		select {
		case <-p.ended:
		case <-time.After(20 * time.Second):
			p.cancel()
			<-p.ended
		}
		p.cancel()
	})
}

// checkpointed is one checkpoint: what took how long.
type checkpointed struct {
	schema string
	begin  time.Time                // of the request
	began  map[string]time.Duration // phases, since then
	took   map[string]time.Duration
}

// checkpoint asks for a checkpoint and notes when its phases begin, as the head
// reports them.
func (p *process) checkpoint(ctx context.Context) (*checkpointed, error) {
	record, err := p.find()
	if err != nil {
		return nil, err
	}
	began := make(map[string]time.Duration)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	schema, err := record.Checkpoint(ctx, false, limit, func(now control.Progress) {
		if _, ok := began[now.Phase]; !ok {
			began[now.Phase] = time.Since(start)
		}
	})
	commit := time.Since(start)
	if err != nil {
		return nil, err
	}
	took := map[string]time.Duration{"commit": commit}
	closing, closed := began["closing"]
	open, opened := began["writing"]
	if !opened { // everything was written before the last rank had copied
		open, opened = began["committing"]
	}
	if closed && opened { // a head with many ranks leaves reports out: no figure is better than a wrong one
		took["points"], took["gate"] = closing, open-closing
	}
	return &checkpointed{schema, start, began, took}, nil
}

// pause is what the load says about the last checkpoint.
func (p *process) pause() (time.Duration, error) {
	text, err := p.line("pause ")
	if err != nil {
		return 0, err
	}
	pause, err := strconv.ParseFloat(text, 64)
	return time.Duration(pause * float64(time.Second)), err
}

// tell writes a line to rank 0 and returns what it says to it.
func (p *process) tell(command, answer string) (string, error) {
	if _, err := fmt.Fprintln(p.stdin, command); err != nil {
		return "", err
	}
	return p.line(answer)
}

// find finds the job's record: the job whose head is this process.
func (p *process) find() (*control.Record, error) {
	if p.record != nil {
		return p.record, nil
	}
	jobs, err := control.Jobs()
	if err != nil {
		return nil, err
	}
	for _, r := range jobs {
		if r.PID == p.cmd.Process.Pid {
			p.record = r
			return r, nil
		}
	}
	return nil, errors.New("the job is not among those that run")
}

// freeze runs f while the ranks stand still (SIGSTOP), so that what f measures
// has the machine for itself.
func (p *process) freeze(program string, f func() error) (err error) {
	ranks := descendants(p.cmd.Process.Pid, program)
	if len(ranks) == 0 {
		return errors.New("the job has no ranks")
	}
	signal := func(s syscall.Signal) error {
		for _, pid := range ranks {
			if err := syscall.Kill(pid, s); err != nil {
				return fmt.Errorf("signal to rank with pid %d: %w", pid, err)
			}
		}
		return nil
	}
	if err := signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, signal(syscall.SIGCONT)) }()
	return f()
}

// descendants returns the processes below pid whose command has a name, all of
// them for "".
func descendants(pid int, name string) (found []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		list, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(list)) {
			child, _ := strconv.Atoi(word)
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child))
			if name == "" || strings.TrimSpace(string(comm)) == name {
				found = append(found, child)
			}
			found = append(found, descendants(child, name)...)
		}
	}
	return found
}
