package capture

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// CheckProgram says why the executable at path cannot be imaged, nil if nothing
// speaks against it: it may be of any language.
func CheckProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, notELF(err))
	}
	defer f.Close()
	for _, check := range []func() error{
		func() error { return checkMachine(f) },
		func() error { return checkRights(path) },
		func() error { return checkSanitizer(path) },
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func notELF(err error) error {
	if format := (*elf.FormatError)(nil); errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refusal.New("name the compiled program, or the interpreter with the script as its argument", "it is no executable of this system: %v", err)
	}
	return err
}

func checkMachine(f *elf.File) error {
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return refusal.New("build it for amd64", "it is built for %s", f.Machine)
	}
	return nil
}

// checkRights refuses programs that run as another user: a restart starts a copy,
// which would not.
func checkRights(path string) error {
	st, err := os.Stat(path)
	if err == nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return refusal.New("take a copy without these bits", "it runs as another user or group (set-user-id or set-group-id)")
	}
	return err
}

// checkSanitizer looks at how Go built it.
func checkSanitizer(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil // it is not Go's
	}
	for _, s := range info.Settings {
		if (s.Key == "-msan" || s.Key == "-asan") && s.Value == "true" {
			return refusal.New("build it without "+s.Key, "it is built with a sanitizer (%s)", s.Key)
		}
	}
	return nil
}
