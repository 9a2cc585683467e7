// Package mpiworld is a world for package mirror over a communicator of mpi: for programs under gorun that steer
// themselves.
//
//	mpi.Run(func(c *mpi.Comm) error {
//		t, err := mpiworld.New(c, mpiworld.Options{})
//		if err != nil {
//			return err
//		}
//		world := mirror.New(t)
//		defer world.Close()
//		return mirror.Run(world, func(ctx context.Context) error { ... })
//	})
//
// What it can do is bounded by the life of a job. The ranks of a job end together: when one dies, gorun ends the others and, with -restarts,
// begins again with new processes. So there is one life of the world in a process, no spare, and nothing that was in memory
// is left after a death. A Target on disk (mirror.File, mirror.Mapped) is: in the job's next life Restore finds it, also where ranks are on other nodes than
// before, and makes what a lost node held from what others have. A Target in memory serves to go back by the program's own decision. Programs whose
// survivors are to stay in their processes use package tcpworld.
//
// Why survivors cannot go on in their processes: a rank that moves shows that a process can be told another incarnation, but only from a cut. All gates are
// closed then and all channels drained, and the new process has an image of that very cut. A death leaves no cut. Messages from and to the dead rank are
// half sent; turns of teams and collectives have begun on some ranks and not on others; the counts of calls by which all agree on contexts
// and tags differ from rank to rank. None of that can be counted back while goroutines of the program stand within such calls, and a new process in the dead
// rank's place would begin with counts of zero. What it would take is that every communicator, request, window and file of the old life becomes
// void at once, that calls under way return an error, and that Run hands its function a new world. MPI-4.1 has no such thing, and package mpi has none: its World is
// one for the life of the process.
//
// Blocks are messages of a communicator of their own. They use the job's transports, shared memory included, and are subject to checkpoints as all messages
// are.
package mpiworld

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/mpi"
)

// Options say where a rank is.
type Options struct {
	Node string // what is lost together with this rank; "": the node on which gorun started it
	Rack string // what nodes may be lost together; "": not known
}

// Transport is a mirror.Transport over a communicator.
type Transport struct {
	c     *mpi.Comm // a duplicate
	ranks []mirror.Place
	sink  mirror.Sink
	ended sync.WaitGroup

	ctx   context.Context // of the one life
	end   context.CancelCauseFunc
	to    []sync.Mutex // by rank: head and body of a block follow each other
	once  sync.Once
	serve sync.Once
}

// Tags of a block's two messages.
const (
	tagHead = iota
	tagBody
)

// nameSize bounds names of nodes and racks.
const nameSize = 128

type names struct{ Node, Rack [nameSize]byte }

// New makes a transport of a communicator. It is collective over c, of which it uses a duplicate. It needs no other call of mpi.
//
// Errors: a name longer than 128 bytes; those of Dup and Allgather.
func New(c *mpi.Comm, o Options) (*Transport, error) {
	if o.Node == "" {
		host, _ := os.Hostname()
		o.Node = fmt.Sprintf("%.100s/%d", host, job.Of(c).Nodes()[c.WorldRank(c.Rank())])
	}
	if len(o.Node) > nameSize || len(o.Rack) > nameSize {
		return nil, fmt.Errorf("mpiworld: node %q, rack %q: a name has at most %d bytes", o.Node, o.Rack, nameSize)
	}
	d, err := c.Dup()
	if err != nil {
		return nil, err
	}
	mine, all := names{}, make([]names, c.Size())
	copy(mine.Node[:], o.Node)
	copy(mine.Rack[:], o.Rack)
	if err := mpi.Allgather(d, []names{mine}, all); err != nil {
		return nil, err
	}
	t := &Transport{c: d, to: make([]sync.Mutex, c.Size())}
	for _, n := range all {
		t.ranks = append(t.ranks, mirror.Place{Node: text(n.Node), Rack: text(n.Rack)})
	}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	return t, nil
}

func text(b [nameSize]byte) string { return strings.TrimRight(string(b[:]), "\x00") }

// Serve implements mirror.Transport.
func (t *Transport) Serve(s mirror.Sink) { t.sink = s }

// theLife is the only one.
const theLife = 1

// Join implements mirror.Transport.
func (t *Transport) Join(ctx context.Context, after uint32) (*mirror.Life, error) {
	if after >= theLife || t.ctx.Err() != nil {
		return nil, mirror.ErrOver
	}
	t.serve.Do(func() { t.ended.Go(t.receive) })
	return &mirror.Life{Number: theLife, Rank: t.c.Rank(), Ranks: t.ranks, Ctx: t.ctx}, nil
}

// receive takes blocks until the transport is closed.
func (t *Transport) receive() {
	c := t.c.WithContext(t.ctx)
	for {
		if err := t.block(c); err != nil {
			t.end(err)
			return
		}
	}
}

// block takes one.
func (t *Transport) block(c *mpi.Comm) error {
	m, st, err := c.Mprobe(mpi.AnySource, tagHead)
	if err != nil {
		return err
	}
	b := make([]byte, mpi.CountOf[byte](st))
	if _, err := mpi.Mrecv(m, b); err != nil {
		return err
	}
	if len(b) < 4 {
		return fmt.Errorf("mpiworld: a block of rank %d without a head", st.Source)
	}
	size := int(binary.BigEndian.Uint32(b))
	room, arrived := t.sink(theLife, st.Source, b[4:], size)
	if size > 0 {
		if len(room) != size {
			room = make([]byte, size)
		}
		if _, err := mpi.Recv(c, room, st.Source, tagBody); err != nil {
			return err
		}
	}
	arrived()
	return nil
}

// Put implements mirror.Transport.
func (t *Transport) Put(ctx context.Context, life uint32, to int, head, body []byte) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t.to[to].Lock()
	defer t.to[to].Unlock()
	c := t.c.WithContext(t.ctx)
	err := mpi.Send(c, append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), head...), to, tagHead)
	if err == nil && len(body) > 0 {
		err = mpi.Send(c, body, to, tagBody)
	}
	return err
}

// Leave implements mirror.Transport. An error of the function is the rank's: mpi.Run ends the job with it.
func (t *Transport) Leave(ctx context.Context, life uint32, result error) error {
	if result == nil {
		result = mpi.Barrier(t.c.WithContext(ctx))
	}
	if errors.Is(result, mpi.ErrPeerFailed) || errors.Is(result, mpi.ErrAborted) {
		return fmt.Errorf("%w; ranks of a job end together: with gorun -restarts and a mirror.File or mirror.Mapped the next life goes on from the newest epoch", result)
	}
	return result
}

// Close implements mirror.Transport. It is not collective.
func (t *Transport) Close() error {
	var err error
	t.once.Do(func() {
		t.end(mirror.ErrOver)
		t.ended.Wait()
		err = t.c.Free()
	})
	return err
}
