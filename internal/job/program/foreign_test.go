package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestForeign(t *testing.T) {
	self, err := os.Executable() // has the module in it
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	for name, mode := range map[string]os.FileMode{"script": 0o755, "text": 0o644, "main.go": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	wrapper := filepath.Join(dir, "wrapper")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexport N=1\nexec '"+self+"' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	comment, outer, gorun := filepath.Join(dir, "comment"), filepath.Join(dir, "outer"), filepath.Join(dir, "gorun")
	if out, err := exec.Command("go", "build", "-o", gorun, "../../../cmd/gorun").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{
		comment: "#!/bin/sh\n # to be run beside '" + self + "'\ntrue\n",
		outer:   "#!/bin/sh\n" + gorun + " version\n", // what gorun starts is another job
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"./script", "x"}, script},
		{[]string{script}, script},
		{[]string{self}, ""},
		{[]string{wrapper}, ""},
		{[]string{comment}, comment},
		{[]string{outer}, outer},
		{[]string{"sh", "-c", "exec '" + self + "' x"}, ""},
		{[]string{script, "-c", self}, ""},
		{[]string{"./text"}, ""},
		{[]string{"./main.go"}, ""},
		{[]string{"."}, ""},
		{[]string{"./absent"}, ""},
	} {
		if got := Foreign(c.args, dir); got != c.want {
			t.Errorf("%q: %q, not %q", c.args, got, c.want)
		}
	}
	if got := Foreign([]string{"sh", "-c", "true"}, dir); filepath.Base(got) != "sh" {
		t.Errorf("sh is %q", got)
	}
}
