package launcher

import (
	"bytes"
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
	"strings"
	"sync"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// program is what the ranks run: an executable, or a folder with a Go main
// package that is built into a temporary folder first.
type program struct {
	name   string // as the user gave it, absolute if it is a path
	path   string // what is executed
	source string // the folder, if it is to be built
	tmp    string // temporary folder of the build

	mu     sync.Mutex
	builds *os.Process // running build
	gone   bool        // no build any more
	exe    *os.File    // the executable as it is run, whatever becomes of its path
	held   error       // why there is no exe
	digest string      // SHA-256 of exe, hex; computed on first use
}

// buildPrefix begins the names of the folders that builds are put in.
const buildPrefix = "gorun-build-"

// find looks the program up as a shell does: a name without slash in PATH,
// anything else relative to dir. A folder is a package to build.
func (p *program) find(name, dir string) error {
	if name == "" {
		return &exitError{ExitUsage, errors.New("no PROGRAM was given; 'gorun help' shows how")}
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
	} else {
		return &exitError{ExitNotFound, fmt.Errorf("%s: not found in PATH; for a file in this folder write ./%s", name, name)}
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &exitError{ExitNotFound, fmt.Errorf("%s: there is no such file or folder", name)}
	case err != nil:
		return &exitError{ExitCannotExec, err}
	case st.IsDir():
		return p.prepareBuild(path)
	case st.Mode()&0o111 == 0:
		return &exitError{ExitCannotExec, fmt.Errorf("%s: not executable; 'chmod +x' it, or give the folder of its Go package", name)}
	}
	p.name, p.path = path, path
	return nil
}

// prepareBuild chooses where the build goes, before anything is there, so that
// whoever has to remove it can be told first.
func (p *program) prepareBuild(dir string) error {
	if found, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(found) == 0 {
		return &exitError{ExitCannotExec, fmt.Errorf("%s: a folder without Go files; give an executable or the folder of a Go main package", dir)}
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	p.name, p.source = dir, dir
	p.tmp = filepath.Join(os.TempDir(), buildPrefix+hex.EncodeToString(b[:]))
	p.path = filepath.Join(p.tmp, filepath.Base(dir))
	return nil
}

func (p *program) isSource() bool { return p.source != "" }

// built reports whether the executable is there.
func (p *program) built() bool {
	_, err := os.Stat(p.path)
	return err == nil
}

func (p *program) argv0() string {
	if p.isSource() {
		return filepath.Base(p.source)
	}
	return p.name
}

// cleanup lists what is to be removed when the job is over.
func (p *program) cleanup() []string {
	if p.tmp == "" {
		return nil
	}
	return []string{p.tmp}
}

// build makes the executable; cancel ends it.
func (p *program) build(h *head) error {
	if err := os.Mkdir(p.tmp, 0o700); err != nil {
		return fmt.Errorf("building %s: %w", p.source, err)
	}
	var out bytes.Buffer
	cmd := exec.Command("go", "build", "-o", p.path, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.source, &out, &out
	// What a killed go leaves of its own goes with the folder.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+p.tmp)
	// It must not outlive this process, else it makes the folder anew that the
	// agents have removed. The signal comes when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	h.orphans.Lock()
	p.mu.Lock()
	err := errors.New("cancelled")
	if !p.gone {
		err = cmd.Start()
	}
	if err == nil {
		p.builds = cmd.Process
		h.own[cmd.Process.Pid] = true
	}
	p.mu.Unlock()
	h.orphans.Unlock()
	if err != nil {
		return fmt.Errorf("building %s: %w", p.source, err)
	}
	err = cmd.Wait()
	p.mu.Lock()
	p.builds = nil
	p.mu.Unlock()
	h.orphans.Lock()
	delete(h.own, cmd.Process.Pid)
	h.orphans.Unlock()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.source, err, bytes.TrimSpace(out.Bytes()))
	}
	if st, err := os.Stat(p.path); err != nil || st.Mode()&0o111 == 0 {
		return fmt.Errorf("building %s gave no executable: it must hold a package main", p.source)
	}
	return nil
}

// cancel ends a build that runs; none begins any more.
func (p *program) cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.builds != nil {
		syscall.Kill(-p.builds.Pid, syscall.SIGKILL)
	}
}

// remove removes what was built.
func (p *program) remove() error {
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

// hold opens the executable that is about to be run: its file may be rebuilt or
// removed while it runs, and a snapshot names what ran, or even keeps it. Without
// it sum fails.
func (p *program) hold(path string) {
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

// sum returns the digest of the executable that hold opened.
func (p *program) sum() (string, error) {
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

// keep stores the executable that hold opened with a snapshot.
func (p *program) keep(s *snapshot.Pending) error {
	digest, err := p.sum()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exe == nil {
		return fmt.Errorf("program: %w", os.ErrClosed)
	}
	// By its descriptor: the path may hold something else by now.
	return s.KeepProgram(fmt.Sprintf("/proc/self/fd/%d", p.exe.Fd()), digest)
}

// removeOwn removes a build folder that a record or an order names, and nothing
// else: the name must be one of ours.
func removeOwn(path string) error {
	if !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(path), buildPrefix) {
		return fmt.Errorf("%s is not a temporary folder of gorun and stays", path)
	}
	return os.RemoveAll(path)
}
