package head

import (
	"encoding/json"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// lost are the messages that no rank of a life has received, as reported by the ranks when they
// were released from Finalize.
type lost struct {
	count int
	first []string
}

// lostShown is how many of them are described.
const lostShown = 6

// unreceived handles a rank's report.
func (inc *incarnation) unreceived(m *oob.Msg) {
	var first []string
	if json.Unmarshal(m.Data, &first) != nil || m.B == 0 || m.B > 1<<40 {
		return
	}
	inc.lost.count += int(m.B)
	inc.lost.first = append(inc.lost.first, first...)
}

// sayUnreceived warns of them at the end of the job.
func (inc *incarnation) sayUnreceived() {
	if l := &inc.lost; l.count > 0 {
		inc.h.say("%s", waitreport.Unreceived(l.count, l.first[:min(len(l.first), lostShown)]))
	}
}
