package head

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// The command that goes on with a job names the nodes that have joined it, too.
func TestRestartNamesJoined(t *testing.T) {
	for _, c := range []struct{ hosts, where, want string }{
		{"a:2,b:2", "-hosts a:2,b:2 -ssh 'ssh -v'", "gorun restart -hosts a:2,b:2,c:4 -ssh 'ssh -v' 7"},
		{"", "-hostfile /h", "gorun restart -hostfile /h 7\n(without what has joined by gorun join -hosts: c:4)"},
	} {
		h := &head{opt: spec.Options{Hosts: c.hosts, Where: c.where}, inc: &incarnation{}}
		h.inc.store.last = &control.Report{Schema: "7"}
		h.noteJoined("b:3, c:4", []string{"a", "b"})
		h.noteJoined("c:4", []string{"a", "b"})
		if got := h.restart(string(h.inc.store.last.Schema)); got != c.want {
			t.Errorf("%s", got)
		}
	}
}
