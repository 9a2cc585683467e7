package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// ErrEnded is wrapped by errors about a job that ended while it was asked.
var ErrEnded = errors.New("the job has ended")

// ErrSuspended is wrapped by errors about a job whose gorun is stopped, as by ^Z. The job answers
// when it is continued.
var ErrSuspended = errors.New("the job is suspended")

// suspended returns an ErrSuspended if the job's gorun is stopped.
func (r *Record) suspended() error {
	if st, ok := procfs.ReadStat(r.PID); !ok || st.State != 'T' {
		return nil
	}
	return fmt.Errorf("job %s: %w: its gorun (process %d) was stopped, as by ^Z; fg in its shell or kill -CONT %d lets it go on", r.Job, ErrSuspended, r.PID, r.PID)
}

// Progress is how far a checkpoint has come.
type Progress = ckpt.ProgressInfo

// ask sends a request and hands replies to each until the last one.
func (r *Record) ask(ctx context.Context, q Request, each func(*Reply)) (*Reply, error) {
	if err := r.suspended(); err != nil {
		return nil, err
	}
	conn, err := r.dial(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) { // since its record was read
		err = ErrEnded
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Job, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	q.Incarnation = r.Incarnation
	if _, err := conn.Write(append(wire.JSON(q), '\n')); err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Job, err)
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadBytes('\n')
		if ctx.Err() != nil {
			if err := r.suspended(); err != nil { // since it was asked
				return nil, err
			}
			return nil, fmt.Errorf("job %s: %w", r.Job, ctx.Err())
		}
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("job %s: %w", r.Job, ErrEnded)
		}
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", r.Job, err)
		}
		var p Reply
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("job %s: answer not understood: %w", r.Job, err)
		}
		if p.Error != "" {
			return nil, fmt.Errorf("job %s: %s", r.Job, p.Error)
		}
		if p.last() {
			return &p, nil
		}
		if each != nil {
			each(&p)
		}
	}
}

// verbRecord asks for the record, of a job that is known by its name alone.
const verbRecord = "record"

// dial connects to the job, by its control folder or by its name.
func (r *Record) dial(ctx context.Context) (conn net.Conn, err error) {
	err = fs.ErrNotExist
	if r.folder != "" {
		var dir *os.File
		if dir, err = os.Open(r.folder); err == nil {
			defer dir.Close()
			if conn, _, err = dialOwn(ctx, within(dir, socketName)); err == nil {
				return conn, nil
			}
		}
	}
	if r.name == "" || ctx.Err() != nil {
		return nil, err
	}
	conn, _, err = dialOwn(ctx, r.name)
	return conn, err
}

// Checkpoint is like Take and returns only the schema's path.
func (r *Record) Checkpoint(ctx context.Context, stop bool, timeout time.Duration, progress func(Progress)) (schema string, err error) {
	taken, err := r.Take(ctx, stop, timeout, progress)
	if err != nil {
		return "", err
	}
	return string(taken.Schema), nil
}

// Take checkpoints the job, waits for the commit and reports what was taken.
// Each phase of it may take timeout; 0 is the job's default.
func (r *Record) Take(ctx context.Context, stop bool, timeout time.Duration, progress func(Progress)) (*Report, error) {
	p, err := r.ask(ctx, Request{Verb: VerbCheckpoint, Stop: stop, TimeoutMS: timeout.Milliseconds()}, func(p *Reply) {
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
	return r.status(ctx, Request{Verb: VerbStatus})
}

// Look asks the job for its state and what each of its ranks waits for. A rank that does not answer
// is reported so after AnswerWithin.
func (r *Record) Look(ctx context.Context) (*Status, error) {
	return r.status(ctx, Request{Verb: VerbStatus, Waits: true})
}

// AnswerWithin is how long the job waits for its ranks when they are asked.
func (r *Record) AnswerWithin() time.Duration { return LookWithin(r.NP) }

// Stacks asks ranks, all if none is named, for the stacks of their goroutines.
func (r *Record) Stacks(ctx context.Context, ranks ...int) ([]RankStacks, error) {
	p, err := r.ask(ctx, Request{Verb: VerbStacks, Ranks: ranks}, nil)
	if err != nil {
		return nil, err
	}
	return p.Stacks, nil
}

func (r *Record) status(ctx context.Context, q Request) (*Status, error) {
	p, err := r.ask(ctx, q, nil)
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
	_, err := r.ask(ctx, Request{Verb: VerbKill, Now: now}, nil)
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

// What commands ask of a running job.
const (
	VerbCheckpoint = "checkpoint"
	VerbStatus     = "status"
	VerbStacks     = "stacks"
	VerbKill       = "kill"
)

// VerbWait waits for the end of the job.
const VerbWait = "wait"

// Wait returns the job's exit status when it has ended.
func (r *Record) Wait(ctx context.Context) (code int, err error) {
	p, err := r.ask(ctx, Request{Verb: VerbWait}, nil)
	if err != nil {
		return 0, err
	}
	if p.Done == nil {
		return 0, fmt.Errorf("job %s: answer without a status", r.Job)
	}
	return p.Done.Status, nil
}

// Orders that keep checkpoints off, or stop the ranks for a while.
const (
	VerbHold    = "hold"
	VerbRelease = "release"
	VerbSuspend = "suspend"
	VerbResume  = "resume"
)

// Order sends the job a verb, and returns when it is carried out.
func (r *Record) Order(ctx context.Context, verb string) error {
	_, err := r.ask(ctx, Request{Verb: verb}, nil)
	return err
}

// VerbMigrate moves ranks to other nodes.
const VerbMigrate = "migrate"

// Migration says which ranks are to move, or that all of a node are to (Off), and to which node;
// "": where there is room. With Device, and if Ranks names none, the ranks that have that device
// move, and use To in its place there.
type Migration struct {
	Ranks   []int
	To, Off string
	Device  *offload.Swap
	Timeout time.Duration
}

// Migrate moves ranks. It returns when they are up there. After an error all are where they were.
func (r *Record) Migrate(ctx context.Context, m Migration, progress func(Progress)) (*Moved, error) {
	p, err := r.ask(ctx, Request{Verb: VerbMigrate, Ranks: m.Ranks, To: m.To, Off: m.Off, Swap: m.Device, TimeoutMS: m.Timeout.Milliseconds()}, func(p *Reply) {
		if progress != nil && p.Progress != nil {
			progress(*p.Progress)
		}
	})
	if err != nil {
		return nil, err
	}
	if p.Done == nil || p.Done.Moved == nil {
		return nil, fmt.Errorf("job %s: answer without an outcome", r.Job)
	}
	return p.Done.Moved, nil
}

// VerbSwap swaps offload processes.
const VerbSwap = "swap"

// Swap carries out q for the offload processes of some ranks, all if none is named. The answer
// lists what could not be done.
func (r *Record) Swap(ctx context.Context, ranks []int, q offload.Swap) (*offload.Swapped, error) {
	p, err := r.ask(ctx, Request{Verb: VerbSwap, Ranks: ranks, Swap: &q}, nil)
	if err != nil {
		return nil, err
	}
	if p.Done == nil || p.Done.Swapped == nil {
		return nil, fmt.Errorf("job %s: answer without an outcome", r.Job)
	}
	return p.Done.Swapped, nil
}

// VerbJoin makes nodes join.
const VerbJoin = "join"

// Join makes nodes join the job: nodes that it has, by name, and new ones, as in -hosts; with
// neither, all nodes that it has and cannot use. It returns when each is up or found unusable. tell
// gets the progress.
func (r *Record) Join(ctx context.Context, nodes []string, more string, tell func(text string)) error {
	_, err := r.ask(ctx, Request{Verb: VerbJoin, Nodes: nodes, Hosts: more}, func(p *Reply) { tell(p.Said) })
	return err
}

// LookWithin is how long ranks have to answer. A thousand ranks that share a CPU or two need a
// second or two.
func LookWithin(ranks int) time.Duration {
	return 2*time.Second + time.Duration(ranks)*5*time.Millisecond
}
