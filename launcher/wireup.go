package launcher

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

// addressed collects the ranks' addresses and, when it has all, gives them to all.
func (inc *incarnation) addressed(rank int, m *oob.Msg) {
	var info oob.AddressInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		inc.fail(verdict{code: ExitFailed, rank: rank, text: fmt.Sprintf("rank %d: its address: %v", rank, err)})
		return
	}
	inc.ranks[rank].addr = info.Modules
	if inc.reach(rank, phaseAddress) < len(inc.ranks) {
		return
	}
	all := make([]map[string][]byte, len(inc.ranks))
	for i := range inc.ranks {
		all[i] = inc.ranks[i].addr
	}
	inc.everyone(oob.Msg{Kind: oob.Peers, Data: mustJSON(all)})
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
