package guest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun runs this program in a guest: it finds itself alone with soft-RoCE there.
func TestRun(t *testing.T) {
	if os.Getenv("GORUN_INSIDE") != "" {
		if _, err := os.Stat("/sys/class/infiniband/rxe0"); err != nil {
			t.Fatal(err)
		}
		t.Log("inside")
		return
	}
	k, err := Find()
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	self := filepath.Join(t.TempDir(), "tests")
	if err := Tests(t.Context(), ".", self); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status, err := Run(t.Context(), k, Options{Program: self, Args: []string{"-test.v", "-test.run=^TestRun$"}, Env: []string{"GORUN_INSIDE=1"},
		Modules: []string{"e1000", "crc32_generic", "rdma_rxe"}, Soft: "rxe0", Out: &out})
	if err != nil || status != 0 || !strings.Contains(out.String(), "inside") {
		t.Errorf("status %d, %v: %q", status, err, out.String())
	}
}
