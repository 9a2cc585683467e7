package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// From the first frame of a rank to the word that all are up.

// greeted takes a rank's first frame: from here on it must finalize.
func (inc *incarnation) greeted(rank int, m *oob.Msg) {
	r := &inc.ranks[rank]
	info, err := oob.CheckHello(m)
	if err != nil {
		inc.fail(verdict{code: ExitFailed, rank: rank, text: fmt.Sprintf("rank %d: %v", rank, err)})
		return
	}
	r.hello = info
	inc.reach(rank, phaseGreeted)
	for other := range inc.ranks {
		o := &inc.ranks[other]
		if o.phase >= phaseGreeted && o.hello.BigEndian != info.BigEndian {
			inc.fail(verdict{code: ExitFailed, rank: rank, text: fmt.Sprintf(
				"ranks of different byte order cannot run together: %s, %s; start all on machines of one byte order (a checkpoint of self can move a whole job from one to the other)",
				byteOrder(rank, r.hello), byteOrder(other, o.hello))})
			return
		}
		if o.phase == phaseExited && o.hello.Role == "" {
			inc.fail(verdict{code: ExitFailed, rank: other, died: true, text: fmt.Sprintf(
				"rank %d ended without calling Init, which other ranks have called: every rank must, or none", other)})
			return
		}
	}
}

func byteOrder(rank int, h oob.HelloInfo) string {
	name := "little-endian"
	if h.BigEndian {
		name = "big-endian"
	}
	return fmt.Sprintf("rank %d is %s (%s)", rank, name, h.Arch)
}

// addressed takes a rank's addresses; package wireup describes the exchange.
func (inc *incarnation) addressed(rank int, m *oob.Msg) {
	reply, err := inc.wires.Address(rank, m)
	inc.reach(rank, phaseAddress)
	inc.wire(rank, reply, err)
}

// reaches takes how far a rank's transports reach.
func (inc *incarnation) reaches(rank int, m *oob.Msg) {
	reply, done, err := inc.wires.Reach(rank, m)
	inc.cameOn()
	if done {
		inc.connected()
	}
	inc.wire(rank, reply, err)
}

// wire tells all ranks what follows, if that is known.
func (inc *incarnation) wire(rank int, reply *oob.Msg, err error) {
	if err != nil {
		inc.fail(verdict{code: ExitFailed, rank: rank, text: err.Error()})
	} else if reply != nil {
		inc.everyone(*reply)
	}
}

// connected tells the user which transports carry what.
func (inc *incarnation) connected() {
	s := inc.wires.Summary()
	inc.routes = &s
	tell := inc.h.verbose
	if s.Unusual { // it may be as wanted, but costs a lot where it is not
		tell = inc.h.say
	}
	for i, note := range s.Notes {
		if i == mostNotes && !inc.h.opt.Verbose {
			tell("... and %d more; gorun status lists them", len(s.Notes)-i)
			break
		}
		tell("transport %s", note)
	}
	if len(s.Uses) > 0 {
		inc.h.verbose("transports: %v", &s)
	}
}

// denied tells the user, once, that a parameter can no longer be heeded. Which ranks find
// that out after the first is in gorun status.
func (inc *incarnation) denied(rank int, m *oob.Msg) {
	notes, err := inc.wires.Late(rank, m)
	if err != nil || len(notes) == 0 {
		return
	}
	tell := inc.h.say
	if inc.later {
		tell = inc.h.verbose
	}
	inc.later = true
	s := *inc.routes
	s.Notes = append(slices.Clip(s.Notes), notes...)
	inc.routes = &s
	for _, note := range notes {
		tell("transport %s", note)
	}
}

// mostNotes is how many lines about transports are told unasked.
const mostNotes = 3

// nodes tells which ranks share a node, as the ranks are told.
func (inc *incarnation) nodes() []oob.Node {
	numbers := map[string]int{}
	var nodes []oob.Node
	for i, l := range inc.links {
		host := l.agent.Host()
		if inc.h.opt.Params[ParamNodes] == "agents" {
			host = fmt.Sprint(i)
		}
		if _, known := numbers[host]; !known {
			numbers[host] = len(numbers)
		}
		from, to := share(i, len(inc.links), inc.h.opt.NP)
		nodes = append(nodes, oob.Node{Number: numbers[host], Ranks: to - from})
	}
	return nodes
}

// local is the number of ranks on the machine of an agent.
func (inc *incarnation) local(of *link) (n int) {
	for i, l := range inc.links {
		if l.agent.Host() == of.agent.Host() {
			from, to := share(i, len(inc.links), inc.h.opt.NP)
			n += to - from
		}
	}
	return n
}

// crowded reports whether some machine has more ranks than CPUs. They are taken
// to have as many as this one: what matters is that all ranks are told the same.
func (inc *incarnation) crowded() bool {
	for _, l := range inc.links {
		if inc.local(l) > runtime.NumCPU() {
			return true
		}
	}
	return false
}

// everyone sends a frame to all ranks, once per agent.
func (inc *incarnation) everyone(m oob.Msg) {
	m.From, m.Incarnation = oob.Head, inc.id
	for _, l := range inc.links {
		m.To = oob.AgentAddr(l.index)
		l.out.send(m)
	}
}

func (inc *incarnation) up(rank int) {
	if inc.reach(rank, phaseUp) < len(inc.ranks) {
		return
	}
	inc.everyone(oob.Msg{Kind: oob.Running})
	inc.h.verbose("job %s: all %d ranks are up after %v", inc.h.id, len(inc.ranks), time.Since(inc.h.began).Round(time.Millisecond))
	if err := inc.h.writeJobID(); err != nil {
		inc.fail(verdict{code: ExitFailed, rank: -1, text: err.Error()})
		return
	}
	inc.allUp()
}

// writeJobID puts the job's id into -jobid-file, whole or not at all.
func (h *head) writeJobID() error {
	name := h.opt.JobIDFile
	if name == "" {
		return nil
	}
	tmp := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d", filepath.Base(name), os.Getpid()))
	err := os.WriteFile(tmp, []byte(h.id+"\n"), 0o644)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("-jobid-file: %w", err)
	}
	return nil
}
