package launcher

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/wireup"
)

// The control protocol: a client connects to control.sock, writes one request
// as a line of JSON and reads lines of JSON, each a reply; the last one holds
// done, status or error. A request names the incarnation that it is meant for:
// a job that was restarted meanwhile refuses it.
//
//	> {"verb":"checkpoint","incarnation":"f00d...","stop":true}
//	< {"progress":{"Phase":"writing","Ranks":3,"Size":4,...}}
//	< {"done":{"schema":"/home/u/.gorun/snapshots/.../schema.toml"}}
type request struct {
	Verb        string `json:"verb"` // checkpoint, status, kill
	Incarnation string `json:"incarnation"`
	Stop        bool   `json:"stop,omitempty"`       // checkpoint: end the job after it
	TimeoutMS   int64  `json:"timeout_ms,omitempty"` // checkpoint: for each phase of it
	Now         bool   `json:"now,omitempty"`        // kill: without SIGTERM first
}

type reply struct {
	Progress *ckpt.ProgressInfo `json:"progress,omitempty"`
	Done     *doneReply         `json:"done,omitempty"`
	Status   *Status            `json:"status,omitempty"`
	Error    string             `json:"error,omitempty"`
}

type doneReply struct {
	*Report
}

// Status is a running job's answer about itself.
type Status struct {
	Job         string        `json:"job"`
	Incarnation string        `json:"incarnation"`
	State       string        `json:"state"` // building, starting, running, ending
	PID         int           `json:"pid"`
	NP          int           `json:"np"`
	CR          string        `json:"cr,omitempty"`
	Program     exact.String  `json:"program"`
	Args        exact.Strings `json:"args"`
	Started     time.Time     `json:"started"`
	Restarts    int           `json:"restarts"`
	Checkpoint  string        `json:"checkpoint,omitempty"` // phase of the one that runs
	Snapshot    exact.String  `json:"snapshot,omitempty"`   // schema of the newest
	Snapshots   int           `json:"snapshots"`            // committed by this head
	Last        *Report       `json:"last,omitempty"`       // of the newest checkpoint
	Ranks       []RankStatus  `json:"ranks"`

	Transports *Transports `json:"transports,omitempty"` // nil: the ranks are not connected yet
}

// Transports says which transports carry the messages between which ranks.
type Transports = wireup.Summary

// RankStatus is one rank in a Status.
type RankStatus struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid"`
	Agent int    `json:"agent"`
	Host  string `json:"host"`
	State string `json:"state"`
}

// control is the head's control folder and socket.
type control struct {
	dir  string
	lock *os.File
	ln   *net.UnixListener
	rec  Record
	h    *head

	mu      sync.Mutex
	closed  bool
	clients sync.WaitGroup // who wait for a reply
}

func incarnationID(id uint64) string { return fmt.Sprintf("%016x", id) }

// openControl makes the control folder and listens.
func (h *head) openControl() (*control, error) {
	name, err := newIncarnationID()
	if err != nil {
		return nil, err
	}
	h.firstID = name
	dir, lock, err := newControlDir(ControlRoot(), incarnationID(name))
	if err != nil {
		return nil, err
	}
	c := &control{dir: dir, lock: lock, h: h}
	c.rec = Record{
		Job: h.id, Incarnation: incarnationID(name), PID: os.Getpid(), Host: hostname(), NP: h.opt.NP, Agents: h.opt.Agents,
		CR: h.opt.CR, Program: exact.String(h.prog.name), Args: h.opt.Args, Dir: exact.String(h.opt.Dir), CkptDir: exact.String(h.opt.CkptDir),
		Started: h.began, Cleanup: h.prog.cleanup(), Version: Version,
	}
	if h.opt.From != nil {
		c.rec.Parent = exact.String(h.opt.From.SchemaPath())
	}
	if err := errors.Join(c.rec.write(dir), c.listen()); err != nil {
		err = errors.Join(err, c.remove())
		lock.Close()
		return nil, err
	}
	return c, nil
}

// listen opens the socket by way of the folder's descriptor: a socket's path is
// short, a folder's need not be.
func (c *control) listen() error {
	addr := &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", c.lock.Fd(), socketName)}
	ln, err := net.ListenUnix("unix", addr)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	ln.SetUnlinkOnClose(false) // the folder is removed as a whole
	if err := os.Chmod(addr.Name, 0o700); err != nil {
		ln.Close()
		return fmt.Errorf("control socket: %w", err)
	}
	c.ln = ln
	go c.serve()
	return nil
}

// update writes the record of another incarnation.
func (c *control) update(inc *incarnation) error {
	c.rec.Incarnation, c.rec.Restarts = incarnationID(inc.id), c.h.restarts
	if inc.from != nil {
		c.rec.Parent = exact.String(inc.from.SchemaPath())
	}
	return c.rec.write(c.dir)
}

// remove removes the folder; what clients are still told goes on.
func (c *control) remove() error { return removeControl(c.dir) }

// close ends the socket when the last replies have been written; the job has
// ended, so that all are there. A client that does not read is not waited for.
func (c *control) close() {
	c.ln.Close()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	told := make(chan struct{})
	go func() { c.clients.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
	c.lock.Close()
}

// enter counts a client in, unless it came too late.
func (c *control) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.clients.Add(1)
	}
	return !c.closed
}

func (c *control) serve() {
	for {
		conn, err := c.ln.AcceptUnix()
		if err != nil {
			return
		}
		go c.client(conn)
	}
}

// client answers one request. The folder keeps others out; the kernel's word on
// who is there is checked all the same.
func (c *control) client(conn *net.UnixConn) {
	defer conn.Close()
	enc := json.NewEncoder(conn)
	if err := sameUser(conn); err != nil {
		enc.Encode(reply{Error: err.Error()})
		return
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return
	}
	conn.SetReadDeadline(time.Time{})
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		enc.Encode(reply{Error: "request not understood: " + err.Error()})
		return
	}
	if !c.enter() {
		return
	}
	defer c.clients.Done()
	replies := make(chan reply, 64)
	c.h.post(func() { c.h.serve(&q, replies) })
	for {
		select {
		case r := <-replies:
			if enc.Encode(r) != nil || r.Progress == nil {
				return
			}
		case <-c.h.done:
			for {
				select {
				case r := <-replies:
					enc.Encode(r)
				default:
					return
				}
			}
		}
	}
}

func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return fmt.Errorf("this job belongs to user %d", os.Getuid())
	}
	return nil
}

// serve runs one request in the loop. Exactly one reply without progress
// follows, at the latest when the job ends.
func (h *head) serve(q *request, replies chan reply) {
	last := func(r reply) {
		select {
		case replies <- r:
		default: // full of progress that nobody reads: the client is gone
		}
	}
	if h.inc == nil || q.Incarnation != incarnationID(h.inc.id) {
		last(reply{Error: "the job was restarted meanwhile: try again"})
		return
	}
	switch q.Verb {
	case "status":
		s := h.status()
		last(reply{Status: &s})
	case "kill":
		h.printer.hurry()
		h.waiters.onEnd(func() { last(reply{Done: &doneReply{}}) })
		h.finish(verdict{code: exitSignalBase + 15, rank: -1, text: "ended by gorun kill"}, !q.Now)
	case "checkpoint":
		phase := ""
		h.request(ckptRequest{
			stop: q.Stop, timeout: time.Duration(q.TimeoutMS) * time.Millisecond,
			progress: func(p ckpt.ProgressInfo) {
				// A slow client sees every phase but fewer steps, and room is
				// left for the outcome.
				if n := len(replies); n < cap(replies)/2 || p.Phase != phase && n < cap(replies)-1 {
					phase = p.Phase
					replies <- reply{Progress: &p}
				}
			},
			done: func(r *Report, err error) {
				if err != nil {
					last(reply{Error: err.Error()})
					return
				}
				last(reply{Done: &doneReply{r}})
			},
		})
	default:
		last(reply{Error: fmt.Sprintf("verb %q is not known to version %s", q.Verb, Version)})
	}
}

func (h *head) status() Status {
	s := Status{
		Job: h.id, Incarnation: incarnationID(h.inc.id), State: h.state, PID: os.Getpid(), NP: h.opt.NP, CR: h.opt.CR,
		Program: exact.String(h.prog.name), Args: h.opt.Args, Started: h.began, Restarts: h.restarts,
		Checkpoint: h.inc.store.phase, Snapshots: h.commits,
		Last: h.inc.store.last, Transports: h.inc.routes,
	}
	if n := len(h.chain); n > 0 {
		s.Snapshot = exact.String(h.chain[n-1].snap.SchemaPath())
	}
	for rank := range h.inc.ranks {
		r := &h.inc.ranks[rank]
		rs := RankStatus{Rank: rank, PID: r.pid, State: r.phase.String()}
		if r.link != nil {
			rs.Agent, rs.Host = r.link.index, r.link.agent.Host()
		}
		s.Ranks = append(s.Ranks, rs)
	}
	return s
}
