package program

import (
	"bytes"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// module is the path of the Go module that a program which may call Init contains.
const module = "github.com/gorun-mpi/gorun"

// Foreign finds the executable of a command that cannot call Init, such as a script or a program in
// C. Path is empty if one of these may call it: the program itself, a program that an argument
// names, as behind numactl or in sh -c, or one that a script names. It is empty as well if there is
// no executable yet.
func Foreign(args []string, dir string) (path string) {
	var p Program
	if err := p.Find(args[0], dir); err != nil || p.IsSource() || ours(p.Path) {
		return ""
	}
	text := script(p.Path) + "\n" + strings.Join(args[1:], "\n")
	for _, word := range words(text) {
		if !strings.HasPrefix(word, "/") && strings.Contains(word, "/") {
			word = filepath.Join(dir, word)
		}
		if found, err := exec.LookPath(word); err == nil && ours(found) {
			return ""
		}
	}
	return p.Path
}

// longestScript is how much of a script is looked at.
const longestScript = 64 << 10

// script returns the content of a file, if that is a script, without its comment lines.
func script(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestScript))
	if err != nil || !bytes.HasPrefix(text, []byte("#!")) {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	comment := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }
	return strings.Join(slices.Concat(lines[:1], slices.DeleteFunc(lines[1:], comment)), "\n")
}

// words returns the words of shell commands that may be names of programs, each once.
func words(text string) []string {
	all := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"'`;|&()<>={}#!", c) })
	slices.Sort(all)
	return slices.Compact(all)
}

// ours reports whether an executable contains this module. Gorun itself does not count: a job that
// it starts is another job.
func ours(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path != module+"/cmd/gorun" && (info.Main.Path == module || slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module }))
}
