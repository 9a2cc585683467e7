package agent

import (
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// speakForStopped answers for a rank that was stopped by a signal. The agent is locked.
func (a *agent) speakForStopped(r *rankProc, m *oob.Msg) bool {
	if m.Kind != oob.Look || !r.isStopped() {
		return false
	}
	a.head.Send(oob.Msg{
		Kind: oob.Seen, From: int32(r.rank), To: oob.Head, Incarnation: m.Incarnation, A: m.A, B: m.B,
		Data: wire.JSON(waitreport.Info{State: r.stoppedText()}),
	})
	return true
}
