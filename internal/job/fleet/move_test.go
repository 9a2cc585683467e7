package fleet

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
)

// TestIdleNodeIsLeft takes a spare out: no rank moves, and no later life uses the node.
func TestIdleNodeIsLeft(t *testing.T) {
	w := newWorld(t, 3)
	f, err := w.fleet(4, hosts.Rules{Spares: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f, 1, "0:[0 1] 1:[2 3]")
	p, err := f.PlanMove(nil, "", address(2))
	if err != nil || len(p.Ranks) > 0 {
		t.Fatal(p, err)
	}
	f.Moved(p)
	if _, err := f.PlanMove([]int{2}, address(2), ""); err == nil || !strings.Contains(err.Error(), "gorun join") {
		t.Errorf("ranks go to a node that was left: %v", err)
	}
	begin(t, f, 2, "0:[0 1] 1:[2 3]")
}
