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
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$*\"\ncase $1 in -fix) ;; *) exit 3; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(fake)+":/bin:/usr/bin")
	for _, x := range []struct {
		args, out string
		code      int
	}{
		{"./a ./b", "./a ./b\n", 3}, {"-any ./a", "-any ./a\n", 3}, {"-fix -diff ./a", "-fix -diff ./a\n", 0},
		{"-any -fix ./a", "-fix -any ./a\n-any ./a\n", 3}, // what is left is reported
	} {
		if out, errs, code := h.gorun(append([]string{"vet"}, strings.Fields(x.args)...)...); code != x.code || out != x.out {
			t.Errorf("%s: exit %d, %q, %s", x.args, code, out, errs)
		}
	}
	if _, errs, code := h.gorun("vet"); code != 2 || !strings.Contains(errs, "no PACKAGE") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
