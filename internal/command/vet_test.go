package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gorun vet passes its flags on and ends as the analyzer does; without it the error tells how to install it.
func TestVet(t *testing.T) {
	h := newHouse(t)
	t.Setenv("PATH", t.TempDir())
	if _, errs, code := h.gorun("vet", "./..."); code != 1 || !strings.Contains(errs, "go install github.com/gorun-mpi/gorun/cmd/gorun-vet") {
		t.Errorf("exit %d, %s", code, errs)
	}
	fake := filepath.Join(t.TempDir(), vetProgram)
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$*\"\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(fake)+":/bin:/usr/bin")
	if out, errs, code := h.gorun("vet", "-fix", "./a", "./b"); code != 3 || out != "-fix ./a ./b\n" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if _, errs, code := h.gorun("vet"); code != 2 || !strings.Contains(errs, "no PACKAGE") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
