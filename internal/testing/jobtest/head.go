package jobtest

import (
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// event is an event for a machine. Another machine may run by the time it is fed.
type event struct {
	job *joblife.Job
	joblife.Event
}

// launch begins a job: the first one, or one that restarts from images of whole processes. One agent
// has all ranks.
func (c *Cluster) launch() {
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
	askFrom := 0
	if c.opt.Asked {
		askFrom = -1
	}
	c.job = joblife.New(joblife.Config{Size: len(c.Jobs), Built: true, AskFrom: askFrom, Ckpt: ckpt.HeadConfig{
		SparseFrom: c.opt.SparseFrom, PhaseMillis: c.opt.Phase.Milliseconds(), AutoMillis: c.opt.Auto.Milliseconds(), AskMillis: 200, FullEvery: 3,
	}})
	c.feedLocked(joblife.Event{Type: joblife.EvStart})
}

// feed steps the machine with the event, and then with the answers to the machine's own actions.
func (c *Cluster) feed(ev joblife.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feedLocked(ev)
}

func (c *Cluster) feedLocked(ev joblife.Event) {
	c.due = append(c.due, event{c.job, ev})
	if c.feeding {
		return
	}
	c.feeding = true
	for len(c.due) > 0 {
		ev := c.due[0]
		c.due = c.due[1:]
		if ev.job != c.job {
			continue
		}
		for _, a := range ev.job.Step(ev.Event) {
			if ev.job == c.job {
				c.do(&a)
			}
		}
	}
	c.feeding = false
}

// answerCkpt answers the checkpoint machine.
func (c *Cluster) answerCkpt(ev ckpt.HeadEvent) {
	c.feedLocked(joblife.Event{Type: joblife.EvCkpt, Life: 1, Ckpt: ev})
}

// hear takes what a rank says to the head.
func (c *Cluster) hear(m oob.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.revival; m.Kind == oob.Failure && m.B == 0 && m.Incarnation == c.incarnation && r != nil && r.born {
		c.answer(ckpt.Done{ID: r.id, Err: string(m.Data)})
	}
	if m.Incarnation == c.incarnation && c.fails() {
		return
	}
	c.said(m)
}

// said is a frame of a rank, or of its agent in its name.
func (c *Cluster) said(m oob.Msg) {
	c.feedLocked(joblife.Event{Type: joblife.EvFrame, Life: 1, Msg: m})
}

func (c *Cluster) do(a *joblife.Action) {
	switch a.Type {
	case joblife.ActBegin:
		c.begin()
	case joblife.ActOrder:
		c.feedLocked(joblife.Event{Type: joblife.EvOrdered, Life: 1})
		if c.revival != nil {
			c.restored()
		}
	case joblife.ActSend:
		c.send(a.Msg)
	case joblife.ActTimer:
		ev, j := joblife.Event{Type: joblife.EvTimeout, Timer: a.Timer}, c.job
		c.timers = append(c.timers, time.AfterFunc(time.Duration(a.Millis)*time.Millisecond, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.job == j {
				c.feedLocked(ev)
			}
		}))
	case joblife.ActUp:
		if r := c.revival; r != nil && r.born {
			c.answer(ckpt.Done{ID: r.id})
		}
	case joblife.ActCkpt:
		c.store(&a.Ckpt)
	}
}

func (c *Cluster) begin() {
	ev := joblife.Event{Type: joblife.EvBegun, Life: 1}
	ev.Begun.Incarnation = c.incarnation
	agent := joblife.Agent{Host: "here", PID: os.Getpid()}
	for rank := range c.Jobs {
		agent.Ranks = append(agent.Ranks, rank)
	}
	ev.Begun.Agents = []joblife.Agent{agent}
	if c.revival != nil {
		ev.Begun.Restore = time.Minute.Milliseconds()
	}
	c.feedLocked(ev)
}

// send carries a frame to one rank, or to all. The agent has nothing to end: ranks
// are goroutines.
func (c *Cluster) send(m oob.Msg) {
	switch {
	case m.Kind == oob.Commit && c.stops:
		c.held = append(c.held, m)
	case m.To >= 0:
		if c.opt.OnSend != nil {
			c.opt.OnSend(m)
		}
		if !c.agent(m) {
			c.up[m.To].put(m)
		}
	case m.Kind == oob.Start:
		c.letGo()
	case m.Kind == oob.Peers || m.Kind == oob.Routes || m.Kind == oob.Running || m.Kind == oob.Health:
		for rank := range c.up {
			m.To = int32(rank)
			c.up[rank].put(m)
		}
	}
}

// Tick makes the head ping the agent, which does not answer.
func (c *Cluster) Tick() { c.feed(joblife.Event{Type: joblife.EvTick, Life: 1, Slow: 1}) }

// Pong makes the agent answer the head.
func (c *Cluster) Pong() {
	c.feed(joblife.Event{Type: joblife.EvFrame, Life: 1, Msg: oob.Msg{Kind: oob.Ping, From: oob.AgentAddr(0), To: oob.Head}})
}

// store is the storage: folders of images without a schema.
func (c *Cluster) store(a *ckpt.HeadAction) {
	switch a.Type {
	case ckpt.HactFolder:
		c.seq++
		ev := ckpt.HeadEvent{Type: ckpt.HvFolder, Folder: c.folder(c.seq), Seq: c.seq}
		if err := os.MkdirAll(ev.Folder, 0o700); err != nil {
			ev = ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Err: err.Error()}
		}
		c.answerCkpt(ev)
	case ckpt.HactCommit:
		c.answerCkpt(ckpt.HeadEvent{Type: ckpt.HvCommitted, Seq: a.Seq})
	case ckpt.HactDone:
		c.answer(a.Done)
	}
}

func (c *Cluster) answer(d ckpt.Done) {
	if c.revival != nil && c.revival.id == d.ID {
		c.revival = nil
	}
	if done := c.wait[d.ID]; done != nil {
		done <- d
		delete(c.wait, d.ID)
	}
}

// Transports tells which transports carry the messages.
func (c *Cluster) Transports() wireup.Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.job.Transports(); s != nil {
		return *s
	}
	return wireup.Summary{}
}
