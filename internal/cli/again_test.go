package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// A job that begins again from its start says what comes twice: lines of output, and what is appended to files.
func TestSaysWhatComesTwice(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	p := h.start("", "-np", "1", "-restarts", "1", "sh", "-c", `echo one; echo two; echo x >> log; mkdir begun && kill -9 $$; exit 0`)
	if code := p.code(); code != 0 || p.out.String() != "one\ntwo\none\ntwo\n" {
		t.Errorf("exit %d, %q", code, p.out)
	}
	for _, want := range []string{"2 lines of output printed since then", "warning: files in " + dir + " were written to after the job began, and stay as they are: ", "log"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("no %q in\n%s", want, p.err)
		}
	}
	h.nothingLeft()
}

// The files of -output-dir hold each line once, whatever a restart goes on from, and the errors of all lives.
func TestOutputFilesHoldEachLineOnce(t *testing.T) {
	for _, flags := range [][]string{{}, {"-tag-output"}, {"-cr=native"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			h := newHouse(t)
			dir := t.TempDir()
			t.Chdir(dir)
			args := append([]string{"-np", "1", "-restarts", "1", "-output-dir", "out", "-jobid-file", "id"}, flags...)
			script := `echo one; echo error >&2; until [ -e go ]; do sleep .01; done; echo two; mkdir begun && kill -9 $$; echo three; exit 0`
			p := h.start("", append(args, "sh", "-c", script)...)
			testenv.Until(t, func() string {
				text, _ := os.ReadFile("out/rank.0.out")
				return map[bool]string{false: "nothing is printed"}[len(text) > 0]
			})
			if len(flags) > 0 && flags[0] == "-cr=native" {
				h.must("checkpoint", h.jobID(p, "id"))
			}
			if err := os.WriteFile("go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code := p.code(); code != 0 {
				t.Errorf("exit %d, %s", code, p.err)
			}
			text, err := os.ReadFile("out/rank.0.out")
			if got := strings.ReplaceAll(string(text), "[0] ", ""); err != nil || got != "one\ntwo\nthree\n" {
				t.Errorf("%q, %v\n%s", text, err, p.err)
			}
			if text, err := os.ReadFile("out/rank.0.err"); err != nil || !strings.Contains(string(text), "error\n") {
				t.Errorf("errors: %q, %v", text, err)
			}
			h.nothingLeft()
		})
	}
}

// Output that a former gorun was redirected to, by the user or by -detach, is not named among the files of the program.
func TestOwnOutputIsNoFileOfTheProgram(t *testing.T) {
	h := detachHouse(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create("mine")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	script := `until [ -e go ]; do sleep .01; done; echo x >> log; echo done; until [ -e end ]; do sleep .01; done`
	p := h.startTo(to, "", "-np", "1", "-cr=native", "-jobid-file", "id", "sh", "-c", script)
	id := h.jobID(p, "id")
	h.must("checkpoint", id)
	if err := errors.Join(os.WriteFile("go", nil, 0o600), os.WriteFile("gorun-"+id+".out", []byte("of -detach\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, func() string {
		text, _ := os.ReadFile("mine")
		return map[bool]string{false: "nothing is printed"}[len(text) > 0]
	})
	h.must("kill", id)
	p.code()
	if err := os.WriteFile("end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	q := h.start("", "restart", id)
	if code := q.code(); code != 0 {
		t.Errorf("exit %d, %s", code, q.err)
	}
	_, names, found := strings.Cut(q.err.String(), "warning: files in "+dir+" were written to after the snapshot")
	names, _, _ = strings.Cut(names, "\n")
	if !found || !strings.Contains(names, "log") || strings.Contains(names, "mine") || strings.Contains(names, ".out") {
		t.Errorf("named are %q in\n%s", names, q.err)
	}
	h.nothingLeft()
}
