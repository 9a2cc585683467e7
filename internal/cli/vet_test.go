package cli

import (
	"os"
	"path/filepath"
	"regexp"
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

// A program that has imported mpi alone builds after its fix: its go.mod and go.sum list what package cr needs.
func TestVetRequires(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOPROXY", "off") // all that gorun is built of is here
	t.Setenv("GOSUMDB", "off")
	uses := "\nrequire github.com/gorun-mpi/gorun v0.0.0\n\nreplace github.com/gorun-mpi/gorun => " + root + "\n"
	for name, x := range map[string]struct{ mod, sum string }{
		"go.mod": {"module program\n\ngo 1.25.0\n" + uses, string(sum)},
		"go.sum": {strings.Replace(string(mod), "module github.com/gorun-mpi/gorun", "module program", 1) + uses, regexp.MustCompile(`(?m)^github.com/golang/snappy .*\n`).ReplaceAllString(string(sum), "")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod": x.mod, "go.sum": x.sum,
				"main.go":  "package main\n\nimport _ \"github.com/gorun-mpi/gorun/mpi\"\n\nfunc main() {}\n",
				"after":    "package main\n\nimport _ \"github.com/gorun-mpi/gorun/cr\"\n\nfunc main() {}\n",
				vetProgram: "#!/bin/sh\ncase $1 in -fix) cp after main.go ;; *) go list -deps . >list || exit 5 ;; esac\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Chdir(dir)
			h := newHouse(t)
			if _, errs, code := h.gorun("vet", "-any", "-fix", "."); code != 0 || !strings.Contains(errs, "go.mod and go.sum list now what package cr needs") {
				t.Errorf("exit %d, %s", code, errs)
			}
		})
	}
}
