package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/device"
)

// gorun devices prints what gorun-device tells before goroutines, and without it those alone. What it complains of is an error.
func TestDevices(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if out, errs, code := h.gorun("devices"); code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "\ncpu:0  cpu ") || !strings.Contains(errs, "go -C cmd/gorun-device install .") || !strings.Contains(errs, "apt install ") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	server := func(script string) {
		if err := os.WriteFile(filepath.Join(dir, "gorun-device"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server(`printf '%s' '[{"library": "opencl", "kind": "gpu", "name": "Fast\n1", "platform": "Test", "memory": 3145728, "units": 7, "double": true}]'`)
	if out, errs, code := h.gorun("devices"); code != 0 || !strings.Contains(out, "\nopencl:0  gpu   7      3      yes      \"Fast\\n1\"") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	var infos []device.Info
	if out, errs, code := h.gorun("devices", "-json"); code != 0 || json.Unmarshal([]byte(out), &infos) != nil || len(infos) != 2 || infos[0].ID != "opencl:0" || infos[1].ID != "cpu:0" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	server("echo '[]'")
	if _, errs, code := h.gorun("devices"); code != 0 || !strings.Contains(errs, dir+"/gorun-device finds no device") {
		t.Errorf("exit %d, %s", code, errs)
	}
	server("echo no library >&2; exit 1")
	if out, errs, code := h.gorun("devices"); code != 1 || !strings.Contains(out, "cpu:0") || !strings.Contains(errs, "no library") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if _, errs, code := h.gorun("devices", "0"); code != 2 || !strings.Contains(errs, "takes no arguments") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
