// Package program finds, builds and keeps what the ranks run.
package program

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/system/subreaper"
)

// Program is what the ranks run: an executable, or Go source that is built into
// a temporary folder first. The source is a folder with a main package or, as
// for go run, one file of package main.
type Program struct {
	Name   string // as the user gave it, absolute if it is a path
	Path   string // what is executed
	source string // the folder or file that is to be built, "" if there is none
	folder string // in which it is built
	what   string // to build there: "." or the file
	tmp    string // temporary folder of the build

	mu     sync.Mutex
	builds *os.Process // running build
	gone   bool        // removed: no build begins any more
	exe    *os.File    // the executable that runs, even if its path is replaced
	held   error       // why there is no exe
	digest string      // SHA-256 of exe, hex; computed on first use
}

// Find looks the program up as a shell does: a name without slash in PATH,
// anything else relative to dir. A folder is a package to build, and so is a Go
// file that is not executable.
func (p *Program) Find(name, dir string) error {
	if name == "" {
		return spec.WithStatus(spec.ExitUsage, errors.New("no PROGRAM was given; 'gorun help' shows how"))
	}
	path := name
	if strings.Contains(name, "/") || name == "." || name == ".." {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	} else if found, err := exec.LookPath(name); err == nil {
		path, err = filepath.Abs(found)
		if err != nil {
			return err
		}
	} else if st, err := os.Stat(filepath.Join(dir, name)); err == nil && !st.IsDir() && strings.HasSuffix(name, ".go") {
		path = filepath.Join(dir, name)
	} else {
		return spec.WithStatus(spec.ExitNotFound, fmt.Errorf("%s: not found in PATH; for a file in this folder write ./%s", name, name))
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return spec.WithStatus(spec.ExitNotFound, fmt.Errorf("%s: there is no such file or folder", name))
	case err != nil:
		return spec.WithStatus(spec.ExitCannotExec, err)
	case st.IsDir():
		return p.buildFolder(path)
	case st.Mode()&0o111 != 0:
	case strings.HasSuffix(name, "_test.go"):
		return spec.WithStatus(spec.ExitCannotExec, fmt.Errorf("%s: a test is no program; 'go test' runs it, package mpi/mpitest gives it ranks", name))
	case strings.HasSuffix(name, ".go"):
		return p.prepareBuild(path, filepath.Dir(path), filepath.Base(path))
	default:
		return spec.WithStatus(spec.ExitCannotExec, fmt.Errorf("%s: not executable; 'chmod +x' it, or give the folder of its Go package", name))
	}
	p.Name, p.Path = path, path
	return nil
}

// buildFolder prepares the build of the package in a folder.
func (p *Program) buildFolder(dir string) error {
	if found, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(found) == 0 {
		return spec.WithStatus(spec.ExitCannotExec, fmt.Errorf("%s: a folder without Go files; give an executable or the folder of a Go main package", dir))
	}
	return p.prepareBuild(dir, dir, ".")
}

// prepareBuild chooses the folder of the build before it exists, so that the process that has
// to remove it can be told first.
func (p *Program) prepareBuild(source, folder, what string) error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	p.Name, p.source, p.folder, p.what = source, source, folder, what
	p.tmp = filepath.Join(os.TempDir(), control.BuildPrefix+hex.EncodeToString(b[:]))
	p.Path = filepath.Join(p.tmp, p.Argv0())
	return nil
}

// IsSource reports whether it is to be built.
func (p *Program) IsSource() bool { return p.source != "" }

// Built reports whether the executable is there.
func (p *Program) Built() bool {
	_, err := os.Stat(p.Path)
	return err == nil
}

// Argv0 is its name as it sees it.
func (p *Program) Argv0() string {
	if p.IsSource() {
		return strings.TrimSuffix(filepath.Base(p.source), ".go")
	}
	return p.Name
}

// Cleanup lists what is to be removed when the job is over.
func (p *Program) Cleanup() []string {
	if p.tmp == "" {
		return nil
	}
	return []string{p.tmp}
}

// Build makes the executable; cancel ends it.
func (p *Program) Build() error {
	if err := os.Mkdir(p.tmp, 0o700); err != nil {
		return fmt.Errorf("building %s: %w", p.source, err)
	}
	var out bytes.Buffer
	cmd := exec.Command("go", "build", "-o", p.Path, p.what)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, &out, &out
	// The temporary files of a killed go command are removed with the folder.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+p.tmp)
	// The build must not outlive this process: it would make the folder again that the agents have
	// removed. The signal comes when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.mu.Lock()
	err := errors.New("cancelled")
	if !p.gone {
		err = subreaper.Start(cmd)
	}
	if err == nil {
		p.builds = cmd.Process
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("building %s: %w", p.source, err)
	}
	err = subreaper.Wait(cmd)
	p.mu.Lock()
	p.builds = nil
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s%s", p.source, err, bytes.TrimSpace(out.Bytes()), p.moreFiles())
	}
	if st, err := os.Stat(p.Path); err != nil || st.Mode()&0o111 == 0 {
		return fmt.Errorf("building %s gave no executable: it must hold a package main", p.source)
	}
	return nil
}

// moreFiles is the remedy for a file that could not be built alone while its package has others:
// only that file was given to the compiler, as by go run.
func (p *Program) moreFiles() string {
	if p.what == "." {
		return ""
	}
	all, _ := filepath.Glob(filepath.Join(p.folder, "*.go"))
	all = slices.DeleteFunc(all, func(f string) bool { return f == p.source || strings.HasSuffix(f, "_test.go") })
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("\nonly %s was compiled; if it needs the other files of its folder, give the folder: gorun [flags] %s", p.what, p.folder)
}

// cancel ends a build that runs. No build begins any more.
func (p *Program) cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.builds != nil {
		syscall.Kill(-p.builds.Pid, syscall.SIGKILL)
	}
}

// Remove removes what was built.
func (p *Program) Remove() error {
	p.cancel()
	p.mu.Lock()
	if p.exe != nil {
		p.exe.Close()
		p.exe, p.held = nil, os.ErrClosed
	}
	p.mu.Unlock()
	if p.tmp == "" {
		return nil
	}
	return os.RemoveAll(p.tmp)
}

// Hold opens the executable that is about to be run. Its file may be rebuilt or removed while it
// runs, and a snapshot names what ran, or even keeps it. Without Hold, Sum fails.
func (p *Program) Hold(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exe != nil {
		p.exe.Close()
	}
	p.digest = ""
	if p.exe, p.held = os.Open(path); p.held != nil {
		p.exe = nil
	}
}

// Sum returns the digest of the executable that Hold opened.
func (p *Program) Sum() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.digest != "" {
		return p.digest, nil
	}
	if p.held != nil {
		return "", fmt.Errorf("program: %w", p.held)
	}
	st, err := p.exe.Stat()
	if err != nil {
		return "", fmt.Errorf("program: %w", err)
	}
	d := sha256.New()
	if _, err := io.Copy(d, io.NewSectionReader(p.exe, 0, st.Size())); err != nil {
		return "", fmt.Errorf("program: %w", err)
	}
	p.digest = hex.EncodeToString(d.Sum(nil))
	return p.digest, nil
}

// Open returns the executable that Hold opened, and its size. The caller closes it.
func (p *Program) Open() (*os.File, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exe == nil {
		return nil, 0, fmt.Errorf("program: %w", cmp.Or(p.held, os.ErrClosed))
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", p.exe.Fd()))
	if err != nil {
		return nil, 0, fmt.Errorf("program: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("program: %w", err)
	}
	return f, st.Size(), nil
}

// Keep stores the executable that Hold opened with a snapshot.
func (p *Program) Keep(s *snapshot.Pending) error { return p.keep(s.KeepProgram) }

// KeepBeside stores it as one that images need beside the program of the snapshot.
func (p *Program) KeepBeside(s *snapshot.Pending) error { return p.keep(s.KeepLibrary) }

func (p *Program) keep(store func(path, digest string) error) error {
	digest, err := p.Sum()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exe == nil {
		return fmt.Errorf("program: %w", os.ErrClosed)
	}
	// It is read by descriptor: the path may name another file by now.
	return store(fmt.Sprintf("/proc/self/fd/%d", p.exe.Fd()), digest)
}
