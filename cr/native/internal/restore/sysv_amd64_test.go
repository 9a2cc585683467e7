package restore

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestSysV restores a program of Go alone twice, from what it was itself restored from: such a one has no place
// otherwise, and two of an agent may have the same ids of System V.
func TestSysV(t *testing.T) {
	if err := trace.SameSysV(); err != nil {
		t.Skip(err)
	}
	tr, img := imagedVictim(t, "sysv")
	before := stateOf(t, img)
	if len(before.SysV) != 1 || before.SysV[0].Creator != before.PID {
		t.Fatalf("%+v", before.SysV)
	}
	_, err := tr.tryRestore(img, func(o *whole.RestoreOptions) { o.Params = map[string]string{ParamIDs: idsNew} })
	if err == nil || !strings.Contains(err.Error(), "System V") {
		t.Errorf("without namespaces: %v", err)
	}
	tr.restore(img)
	tr.works(1)
	after := stateOf(t, tr.image(whole.CaptureOptions{}))
	if !reflect.DeepEqual(after.SysV, before.SysV) {
		t.Errorf("%+v, it was %+v", after.SysV, before.SysV)
	}
	twin := *tr
	twin.restore(img)
	twin.works(2)
	tr.works(3)
	if trace.IPCOf(twin.pid) == trace.IPCOf(tr.pid) {
		t.Error("both are in one namespace of System V objects")
	}
	twin.kill()
}
