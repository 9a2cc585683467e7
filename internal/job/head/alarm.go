package head

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// alarmLimit is how long a kernel may run on before its rank leaves the device.
const alarmLimit = time.Minute

// alarm carries out a line of the command of -migrate-on. A failure is reported and not retried:
// the command may print the line again.
func (inc *incarnation) alarm(l *link, m *oob.Msg) {
	h, node := inc.h, l.agent.Host()
	if m.A != 0 { // the agent's own words
		h.say("-migrate-on on node %s: %s", node, m.Data)
		return
	}
	var w wire.Watched
	if err := json.Unmarshal(m.Data, &w); err != nil {
		h.say("-migrate-on on node %s: %v", node, err)
		return
	}
	told := func(what string, err error) {
		if err != nil {
			what = strings.TrimSpace(err.Error())
		}
		h.say("-migrate-on on node %s: %s: %s", node, w.Line, what)
	}
	a, err := wire.ParseAlarm(w.Line)
	if err != nil {
		told("", err)
		return
	}
	var ranks []int // of the node
	for _, other := range inc.links {
		if other.host == l.host {
			ranks = append(ranks, other.ranks...)
		}
	}
	for _, name := range []string{a.Device, a.To} {
		if name != "" && err == nil {
			err = offload.CheckDevice(name)
		}
	}
	having := h.having(a.Device, ranks)
	if len(having) > 0 && a.To == "" {
		a.To = wire.Another(h.deviceOf(having[0], a.Device), w.Devices)
	}
	switch {
	case err != nil:
		told("", err)
	case a.Device == "":
		h.leave(moveRequest{off: node}, told)
	case len(having) == 0:
		told("no rank there has it", nil)
	case a.To == "":
		h.leave(moveRequest{ranks: having}, told)
	case a.Node != "":
		h.leave(moveRequest{ranks: having, to: a.Node, onto: [2]string{a.Device, a.To}}, told)
	default:
		h.swap(&control.Request{Ranks: having, Swap: &offload.Swap{Op: offload.SwapMove, Device: a.Device, To: a.To, TimeoutM: alarmLimit.Milliseconds()}}, func(r control.Reply) {
			switch {
			case r.Error != "":
				told(r.Error, nil)
			case len(r.Done.Swapped.Errors) > 0:
				told(strings.Join(r.Done.Swapped.Errors, "; "), nil)
			default:
				told(fmt.Sprintf("%d device(s) moved to %s", r.Done.Swapped.Done, a.To), nil)
			}
		})
	}
}

// leave moves ranks.
func (h *head) leave(q moveRequest, told func(string, error)) {
	h.migrate(q, func(ckpt.ProgressInfo) {}, func(moved *control.Moved, err error) {
		if err != nil {
			told("", err)
			return
		}
		told(moved.Where, nil)
	})
}
