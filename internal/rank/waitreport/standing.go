package waitreport

import (
	"bytes"
	"strings"
)

// Standing describes a program that is in no call of this library: it computes, unless all its
// goroutines wait. Then Standing names what its main goroutine waits for.
func Standing(dump []byte) string {
	main := ""
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		lines := strings.Split(string(part), "\n")
		n, ok := header(lines[0])
		site := program(lines)
		if !ok || site == "" {
			continue
		}
		what := waitsFor(lines[0])
		if what == "" {
			return Computing
		}
		if n == 1 {
			main = what + " at " + site + ", outside the library"
		}
	}
	if main == "" {
		return Computing
	}
	return main
}

// program is the place in the program where a goroutine is, whose innermost frames may be Go's own; "": it is in the library, or not of the program.
func program(lines []string) string {
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "created by ") {
			return ""
		}
		switch pkg, _ := split(lines[i]); {
		case standard(pkg):
		case library(pkg):
			return ""
		default:
			return place(lines[i+1])
		}
	}
	return ""
}

// waitsFor reads what a goroutine waits for in the line that begins its stack, as in "goroutine 1 [sleep, 2 minutes]:"; "": it runs, or could.
func waitsFor(line string) string {
	_, state, _ := strings.Cut(line, "[")
	state, _, _ = strings.Cut(state, "]")
	state, _, _ = strings.Cut(state, ",")
	switch state, _, _ = strings.Cut(state, " ("); {
	case state == "running", state == "runnable", state == "":
		return ""
	case state == "sleep":
		return "in time.Sleep"
	case state == "syscall":
		return "in a system call"
	case state == "IO wait":
		return "waiting for input or output"
	}
	return "waiting (" + state + ")"
}
