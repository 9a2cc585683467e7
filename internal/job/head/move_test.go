package head

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// still is a back-end that cannot have two processes of a rank.
type still struct{ whole.Imager }

func (still) Name() string { return "still" }

// A move is refused before anybody stands if the back-end of the job cannot do it.
func TestCanMove(t *testing.T) {
	whole.Register(native.Imager{})
	whole.Register(still{})
	if err := canMove(native.Name); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"still": "start the job with -cr=native", "none": "no back-end"} {
		if err := canMove(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
