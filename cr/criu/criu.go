package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Name is the back-end's name: what -cr takes and what stands in images.
const Name = "criu"

// Reasons why something was refused, for errors.Is.
var (
	ErrUnsupported = errors.New("no usable criu")
	ErrDump        = errors.New("criu could not image the process, which goes on")
	ErrRestore     = errors.New("criu could not restore the process")
	ErrImage       = errors.New("not an image of this back-end")
)

// Backend is the back-end with one criu command, a whole.Imager.
type Backend struct {
	// Command is the criu to call: a name to be looked up, or a path; "" is "criu".
	Command string
	// Dir is where images lie while criu writes or reads them; "" is TMPDIR.
	Dir string
}

func (b *Backend) command() string {
	if b.Command == "" {
		return "criu"
	}
	return b.Command
}

// checkTime bounds how long criu may think about what the kernel can do.
const checkTime = 20 * time.Second

// Supported says why processes cannot be imaged on this machine, in criu's own
// words, nil if they can.
func (b *Backend) Supported() error {
	path, err := exec.LookPath(b.command())
	if err != nil {
		return fmt.Errorf("%w: %w: install CRIU 4.2 or later, or use -cr=native, which needs nothing", ErrUnsupported, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	args := []string{"check"}
	if os.Geteuid() != 0 {
		args = append(args, "--unprivileged")
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: 'criu %s' of %s, %s: %s (%w)", ErrUnsupported, strings.Join(args, " "), path, version(ctx, path), complaints(string(out)), err)
}

// version asks a criu which one it is.
func version(ctx context.Context, path string) string {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || line == "" {
		return "of no known version"
	}
	return "version " + strings.TrimPrefix(line, "Version: ")
}

// complaints takes the lines of a report or log of criu that say what is wrong,
// each once; all of it if there are none.
func complaints(text string) string {
	var lines, errs []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || slices.Contains(lines, line) {
			continue
		}
		lines = append(lines, line)
		// In a log a time stamp, and on restore a process id, come before it.
		if i := strings.Index(line, "Error ("); i >= 0 && !slices.Contains(errs, line[i:]) {
			errs = append(errs, line[i:])
		}
	}
	if errs == nil {
		errs = lines
	}
	if errs == nil {
		return "it says nothing"
	}
	const most = 8 // the first cause comes first
	if len(errs) > most {
		errs = append(errs[:most:most], "...")
	}
	return strings.Join(errs, "; ")
}
