package launcher

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
)

// ErrEnded is wrapped by errors about a job that ended while it was asked.
var ErrEnded = errors.New("the job has ended")

// Progress is how far a checkpoint has come.
type Progress = ckpt.ProgressInfo

// ask sends a request and hands replies to each until the last one.
func (r *Record) ask(ctx context.Context, q request, each func(*reply)) (*reply, error) {
	dir, err := os.Open(r.folder)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Job, ErrEnded)
	}
	defer dir.Close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName))
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Job, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	q.Incarnation = r.Incarnation
	if _, err := conn.Write(append(mustJSON(q), '\n')); err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Job, err)
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadBytes('\n')
		if ctx.Err() != nil {
			return nil, fmt.Errorf("job %s: %w", r.Job, ctx.Err())
		}
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("job %s: %w", r.Job, ErrEnded)
		}
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", r.Job, err)
		}
		var p reply
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("job %s: answer not understood: %w", r.Job, err)
		}
		if p.Error != "" {
			return nil, fmt.Errorf("job %s: %s", r.Job, p.Error)
		}
		if p.Progress == nil {
			return &p, nil
		}
		if each != nil {
			each(&p)
		}
	}
}

// Checkpoint is Take where only the schema's path is wanted.
func (r *Record) Checkpoint(ctx context.Context, stop bool, timeout time.Duration, progress func(Progress)) (schema string, err error) {
	taken, err := r.Take(ctx, stop, timeout, progress)
	if err != nil {
		return "", err
	}
	return string(taken.Schema), nil
}

// Take has the job checkpointed, waits for the commit and tells what was taken.
// Each phase of it may take timeout; 0 is the job's default.
func (r *Record) Take(ctx context.Context, stop bool, timeout time.Duration, progress func(Progress)) (*Report, error) {
	p, err := r.ask(ctx, request{Verb: "checkpoint", Stop: stop, TimeoutMS: timeout.Milliseconds()}, func(p *reply) {
		if progress != nil {
			progress(*p.Progress)
		}
	})
	if err != nil {
		return nil, err
	}
	if p.Done == nil || p.Done.Report == nil {
		return nil, fmt.Errorf("job %s: answer without a snapshot", r.Job)
	}
	return p.Done.Report, nil
}

// Status asks the job how it is.
func (r *Record) Status(ctx context.Context) (*Status, error) {
	p, err := r.ask(ctx, request{Verb: "status"}, nil)
	if err != nil {
		return nil, err
	}
	if p.Status == nil {
		return nil, fmt.Errorf("job %s: answer without a status", r.Job)
	}
	return p.Status, nil
}

// Kill ends the job, at once or after SIGTERM and a moment, and returns when
// nothing of it runs.
func (r *Record) Kill(ctx context.Context, now bool) error {
	_, err := r.ask(ctx, request{Verb: "kill", Now: now}, nil)
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}
