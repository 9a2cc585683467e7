package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func say(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = dispatch(args, stdio{strings.NewReader(""), &o, &e})
	return o.String(), e.String(), code
}

func TestHelp(t *testing.T) {
	if _, errs, code := say(); code != 2 || !strings.Contains(errs, "restart") {
		t.Errorf("without arguments: exit %d, %q", code, errs)
	}
	for i := range commands {
		c := &commands[i]
		out, _, code := say("help", c.name)
		if code != 0 || !strings.HasPrefix(out, "usage: gorun") || !strings.Contains(strings.ToLower(out), strings.ToLower(c.short)) {
			t.Errorf("help %s: exit %d, %q", c.name, code, out)
		}
		again, _, code := say(c.name, "-h")
		if code != 0 || again != out {
			t.Errorf("%s -h: exit %d, differs from help %s", c.name, code, c.name)
		}
		for _, f := range c.flagNames() {
			if !strings.Contains(out, "\n  "+f) {
				t.Errorf("help %s lacks %s", c.name, f)
			}
		}
	}
	if _, errs, code := say("help", "nosuch"); code != 2 || !strings.Contains(errs, "snapshots") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestWrongUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"no PROGRAM":                 {"-np", "2"},
		"at least one rank":          {"-np", "0", "ls"},
		"known are none":             {"-cr", "-ckpt-codec", "gzip", "ls"},
		"there is no signal":         {"-cr", "-ckpt-on-signal", "NOSUCH", "ls"},
		"cannot be caught":           {"-cr", "-ckpt-on-signal", "KILL", "ls"},
		"NAME=VALUE":                 {"-param", "x", "ls"},
		"no such collective":         {"-param", "coll.allredcue=ring", "ls"},
		"allreduce is done by":       {"-param", "coll.allreduce=bruck", "ls"},
		"no such file":               {"-param", "@nowhere", "ls"},
		"tcp is named twice":         {"-rpi", "tcp,tcp", "ls"},
		"known are auto, self":       {"-cr=blcr", "ls"},
		"at least 1":                 {"-cr", "-ckpt-full-every", "0", "ls"},
		"-mtbf goes with":            {"-cr", "-mtbf", "0s", "ls"},
		"for flag -mtbf: a dura":     {"-cr", "-ckpt-every", "auto", "-mtbf", "-1h", "ls"},
		"-ckpt-every: a duration i":  {"-cr", "-ckpt-every", "-5s", "ls"},
		"-heartbeat 0":               {"-heartbeat", "0s", "ls"},
		"-deadlock: a duration abov": {"-deadlock", "0s", "ls"},
		"an exit status is 0":        {"-cr", "-ckpt-exit-status", "256", "ls"},
		"as in 10s, 10m or 10h":      {"-cr", "-ckpt-every", "10", "ls"},
		"as in 1.5s":                 {"-timeout", "1.5", "ls"},
		"-timeout: a duration has":   {"checkpoint", "-timeout", "soon"},
		"-ckpt-full-every needs":     {"-ckpt-full-every", "3", "ls"},
		"known are refuse":           {"-cr", "-files", "lose", "ls"},
		"number of a rank":           {"restart", "-debug", "one", "latest"},
		"ps takes no arguments":      {"ps", "x"},
		"one JOB at a time":          {"kill", "a", "b"},
		"a whole number is wanted":   {"-np", "x", "ls"},
		"true or false is wanted":    {"ps", "-json=x"},
		"kill: which JOB?":           {"kill", "-9", ""},
		"'gorun ps' lists them":      {"kill", ""},
		"image inspect FILE":         {"image", "x"},
		"no SNAPSHOT":                {"restart"},
		"-keep goes with -prune":     {"snapshots", "-keep", "3"},
		"known are bash, zsh, fish":  {"completion", "csh"},
	} {
		if out, errs, code := say(args...); code != 2 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%q: exit %d, %q, want %q", args, code, errs, want)
		}
	}
}

func TestCRFlag(t *testing.T) {
	for in, want := range map[string]string{"true": "auto", "self": "self", "auto": "auto", "false": ""} {
		var f crFlag
		if err := f.Set(in); err != nil || f.value != want {
			t.Errorf("-cr=%s: %q, %v", in, f.value, err)
		}
	}
}

func TestInfo(t *testing.T) {
	out, _, code := say("info")
	for _, want := range []string{"tcp.eager", "self", "criu", "zstd", "ssh", "dir"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("info: exit %d, lacks %s:\n%s", code, want, out)
		}
	}
	for line := range strings.Lines(out) {
		if len(strings.TrimSuffix(line, "\n")) > usualWidth {
			t.Errorf("info: %d columns: %s", len(line)-1, line)
		}
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("x", 50)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"a few words", []string{"a few words"}},
		{"of these words two do not fit there", []string{"of these words two", "do not fit there"}},
		{"levels:nodes/shared/linear:crowded,n=3-6", []string{"levels:nodes/shared/", "linear:crowded,n=3-6"}},
		{long, []string{long[:20], long[:20], long[:10]}},
	} {
		if got := wrap(c.text, 20); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.text, got)
		}
	}
}

// The shells that are here accept the scripts.
func TestCompletion(t *testing.T) {
	for _, sh := range []string{"bash", "zsh", "fish"} {
		out, _, code := say("completion", sh)
		if code != 0 || !strings.Contains(out, "ckpt-every") || !strings.Contains(out, "snapshots") {
			t.Errorf("%s: exit %d, %q", sh, code, out)
		}
		if _, err := exec.LookPath(sh); err != nil {
			continue
		}
		cmd := exec.Command(sh, "-n")
		cmd.Stdin = strings.NewReader(out)
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not accept it: %v\n%s", sh, err, msg)
		}
	}
	script, _, _ := say("completion", "bash")
	listing := "gorun() { printf 'JOB SEQ CREATED\\n5f1c 1 x\\n5f1c 2 x\\n70aa 1 x\\n'; }\n" // of snapshots
	for _, c := range []struct{ words, want string }{
		{"res", "restart resume"},
		{"rest", "restart"},
		{"restart 5f", "5f1c 5f1c/1 5f1c/2"},
		{"restart la", "latest"},
		{"snapshots 70aa/", "70aa/1"},
		{"snapshots -re", "-remove"},
		{"restart ./", ""}, // left to the shell, which completes paths
	} {
		line := fmt.Sprintf("COMP_WORDS=(gorun %s) COMP_CWORD=%d; _gorun; echo ${COMPREPLY[@]}", c.words, len(strings.Fields(c.words)))
		if out, err := exec.Command("bash", "-c", listing+script+"\n"+line).Output(); err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("gorun %s<TAB>: %q, %v", c.words, out, err)
		}
	}
}

// A file sets parameters line by line.
func TestParamFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tuned")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# tuned\n\ncoll.bcast=chain@64k:b=1m-\n  tcp.eager=8\n")
	f := paramFlag{}
	if err := f.Set("@" + file); err != nil || f.String() != "coll.bcast=chain@64k:b=1m- tcp.eager=8" {
		t.Errorf("%v, %v", f, err)
	}
	for _, line := range []string{"nothing", "=1", "@" + file} {
		write("tcp.eager=8\n" + line + "\n")
		if err := f.Set("@" + file); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
