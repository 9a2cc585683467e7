package proc

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The kernel's word about a program that cannot be started is never the whole: each case names what is missing.
func TestExplainExec(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	for name, c := range map[string]struct{ text, dir, want string }{
		"no interpreter": {"#!/usr/bin/nosuch -x\n", "", "its interpreter /usr/bin/nosuch, which"},
		"Windows":        {"#!/bin/sh\r\necho x\r\n", "", `"/bin/sh\r" as its interpreter: mend it with sed`},
		"nothing named":  {"#!\n", "", "names no interpreter"},
		"no program":     {"echo x\n", "", "neither an executable"},
		"folder":         {"#!/bin/sh\n", gone, "the working folder " + gone + " is not there"},
		"program":        {"", "", "no such file"},
	} {
		path := filepath.Join(dir, "p")
		os.Remove(path)
		if c.text != "" {
			if err := os.WriteFile(path, []byte(c.text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{Dir: c.dir})
		if err == nil {
			Wait(pid)
			t.Fatalf("%s: it was started", name)
		}
		if got := ExplainExec(path, c.dir, err); !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}
