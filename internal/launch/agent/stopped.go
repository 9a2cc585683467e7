package agent

import (
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/internal/where"
)

// speakForStopped answers for a rank that somebody has stopped. The agent is locked.
func (a *agent) speakForStopped(r *rankProc, m *oob.Msg) bool {
	if m.Kind != oob.Look || !r.isStopped() {
		return false
	}
	a.head.Send(oob.Msg{
		Kind: oob.Seen, From: int32(r.rank), To: oob.Head, Incarnation: m.Incarnation, A: m.A, B: m.B,
		Data: wire.JSON(where.Info{State: r.stoppedText()}),
	})
	return true
}
