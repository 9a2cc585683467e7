package proc

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ExplainExec says why a program in a working folder could not be started, and what to do about it. The kernel says "no
// such file" of the program also where it lacks the interpreter of a script, the loader of an executable, or the folder.
func ExplainExec(path, dir string, err error) error {
	if dir != "" {
		if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) {
			return fmt.Errorf("the working folder %s is not there: was it deleted? cd to one that is, or make it on every node: %w", dir, err)
		}
	}
	if _, gone := os.Stat(path); gone == nil && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOEXEC)) {
		if why := lacks(path); why != "" {
			return fmt.Errorf("%s: %s: %w", path, why, err)
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// lacks says what an executable file lacks to be executed; "": nothing that is known.
func lacks(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // of which the kernel reads as much
	n, _ := f.Read(head)
	if head = head[:n]; bytes.HasPrefix(head, []byte("#!")) {
		return scriptLacks(head)
	}
	x, err := elf.NewFile(f)
	if err != nil {
		return "it is neither an executable for Linux nor a script that begins with #! and an interpreter, as in #!/bin/sh"
	}
	for _, p := range x.Progs {
		loader := make([]byte, min(p.Filesz, 4096))
		if p.Type != elf.PT_INTERP {
			continue
		}
		if _, err := p.ReadAt(loader, 0); err != nil {
			return ""
		}
		name := string(bytes.TrimRight(loader, "\x00"))
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("its loader %s is not there: it was built for another C library; build it on this system, or without one (CGO_ENABLED=0, -static)", name)
		}
	}
	return ""
}

// scriptLacks says it of a script that begins like this.
func scriptLacks(head []byte) string {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return "its first line names no interpreter: write one, as in #!/bin/sh"
	}
	if len(words) == 1 && strings.HasSuffix(line, "\r") { // else it is the last option's
		return fmt.Sprintf("its lines end as on Windows, so that its first line names %q as its interpreter: mend it with sed -i 's/\\r$//' FILE", strings.TrimSpace(strings.TrimSuffix(line, "\r"))+"\r")
	}
	if _, err := os.Stat(words[0]); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("its interpreter %s, which its first line names, is not there: install it, or name another one", words[0])
	}
	return ""
}
