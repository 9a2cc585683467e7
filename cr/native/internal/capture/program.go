package capture

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// CheckProgram says why the executable at path cannot be imaged, nil if nothing
// speaks against it. What counts is what is in it: a plain go build with cgo
// enabled, but without a package that uses it, is as good as a stripped or a
// position-independent one.
func CheckProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, notELF(err))
	}
	defer f.Close()
	if err := checkMachine(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := checkBuild(path); err != nil { // before what it needs: it knows why it needs it
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := checkLibraries(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

const remedySelf = "build it as a Go program, or use -cr=self"

func notELF(err error) error {
	if format := (*elf.FormatError)(nil); errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refusal.New("name the compiled program", "it is no executable of this system: %v", err)
	}
	return err
}

func checkMachine(f *elf.File) error {
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return refusal.New("build it with GOARCH=amd64", "it is built for %s", f.Machine)
	}
	return nil
}

// checkLibraries looks at what the executable needs to run.
func checkLibraries(f *elf.File) error {
	libs, err := f.DynString(elf.DT_NEEDED)
	if err == nil && len(libs) > 0 {
		return refusal.New("build it with CGO_ENABLED=0, or use -cr=self", "it needs the shared library %s", libs[0])
	}
	return nil
}

// checkBuild looks at how Go built it.
func checkBuild(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return refusal.New(remedySelf, "it is not a Go program")
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch {
	case settings["GOARCH"] != "" && settings["GOARCH"] != "amd64":
		return refusal.New("build it with GOARCH=amd64", "it is built for %s", settings["GOARCH"])
	case settings["-race"] == "true":
		return refusal.New("build it without -race", "it is built with the race detector")
	case settings["-msan"] == "true", settings["-asan"] == "true":
		return refusal.New("build it without -msan and -asan", "it is built with a sanitizer")
	case settings["-buildmode"] != "" && !slices.Contains([]string{"exe", "pie"}, settings["-buildmode"]):
		return refusal.New("build it with -buildmode=exe or pie", "it is built with -buildmode=%s", settings["-buildmode"])
	}
	return checkCgo(path)
}

// checkCgo finds C code that is linked in statically, too.
func checkCgo(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, s := range f.Sections {
		if !strings.HasSuffix(s.Name, ".gopclntab") {
			continue
		}
		// The names of all functions written in Go or its assembler; stripping
		// leaves them. This one is in runtime/cgo and nowhere else.
		found, err := contains(s.Open(), []byte("\x00crosscall2\x00"))
		if err != nil {
			return fmt.Errorf("table of functions: %w", err)
		}
		if found {
			return refusal.New("build it with CGO_ENABLED=0, or use -cr=self", "it holds C code (cgo)")
		}
	}
	return nil
}

// contains looks for s in what r gives.
func contains(r io.Reader, s []byte) (bool, error) {
	buf := make([]byte, 256<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		p := buf[:kept+n]
		if bytes.Contains(p, s) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buf, p[max(0, len(p)-len(s)+1):])
	}
}
