package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// programsDir is the folder, within a job's, of the executables kept for it.
const programsDir = "programs"

// ProgramPath is where the snapshot's executable is kept, "" if it is not.
func (s *Snapshot) ProgramPath() string {
	if !s.Schema.Program.Kept {
		return ""
	}
	return programPath(filepath.Dir(s.Dir), s.Schema.Program.Digest)
}

func programPath(jobDir, digest string) string { return filepath.Join(jobDir, programsDir, digest) }

// KeepProgram stores the executable path beside the job's snapshots, once for each digest. digest must be its
// SHA-256. With /proc/PID/exe as the path it stores what the process really runs. The program stays at least
// until Discard, or until Commit, which writes into the schema that it is kept.
func (p *Pending) KeepProgram(path, digest string) error {
	if p.lock == nil {
		return fmt.Errorf("keep the program of %s: %w", p.Dir, ErrEnded)
	}
	h, err := p.c.keepProgram(p.Job, path, digest, p.step)
	if err != nil {
		return err
	}
	p.program.Release()
	p.program, p.digest = h, digest
	return nil
}

// KeepLibrary stores another file that the images need, as KeepProgram does. Commit writes into the schema which
// are kept.
func (p *Pending) KeepLibrary(path, digest string) error {
	if p.lock == nil {
		return fmt.Errorf("keep a library of %s: %w", p.Dir, ErrEnded)
	}
	if p.libraries[digest] != nil {
		return nil
	}
	h, err := p.c.keepProgram(p.Job, path, digest, p.step)
	if err != nil {
		return err
	}
	if p.libraries == nil {
		p.libraries = map[string]*Hold{}
	}
	p.libraries[digest] = h
	return nil
}

// KeepLibraries keeps for this snapshot what is kept for another one of the job.
func (p *Pending) KeepLibraries(of *Snapshot) error {
	for _, digest := range of.Schema.Program.Libraries {
		if err := p.KeepLibrary(of.LibraryPath(digest), digest); err != nil {
			return err
		}
	}
	return nil
}

// LibraryPath is where a library of the snapshot is kept.
func (s *Snapshot) LibraryPath(digest string) string { return programPath(filepath.Dir(s.Dir), digest) }

// KeepProgram is Pending.KeepProgram for a job that has no snapshot yet. The program stays while the Hold
// lives. The job's folder is made if need be.
func (c *Catalogue) KeepProgram(job, path, digest string) (*Hold, error) {
	return c.keepProgram(job, path, digest, nil)
}

func (c *Catalogue) keepProgram(job, path, digest string, step step) (*Hold, error) {
	f, err := (&keeper{c: c, jobDir: c.JobDir(job), digest: digest, step: step}).keep(job, path)
	if err != nil {
		return nil, fmt.Errorf("keep the program %s for job %s: %w", path, job, err)
	}
	return &Hold{[]*os.File{f}}, nil
}

// keeper stores one program.
type keeper struct {
	c              *Catalogue
	jobDir, digest string
	step           step
}

func (k *keeper) keep(job, path string) (*os.File, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	if !isDigest(k.digest) {
		return nil, fmt.Errorf("digest %.80q is not a SHA-256 in hex", k.digest)
	}
	if err := k.c.makeJob(job); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(k.jobDir, programsDir), 0o700); err != nil {
		return nil, explain(err)
	}
	f, err := k.install(nil)
	if err != nil || f != nil {
		return f, err
	}
	part, err := k.copy(path)
	if err != nil {
		return nil, err
	}
	defer part.Close() // locked until here: no sweep takes it for a leftover
	f, err = k.install(part)
	if _, e := os.Lstat(part.Name()); e == nil {
		os.Remove(part.Name()) // another was faster, or an error
	}
	return f, err
}

// install returns the kept program, locked for use. If it is missing or damaged, part takes its place. Without
// part install then returns nil. The job's lock keeps Prune away, and others that do the same.
func (k *keeper) install(part *os.File) (*os.File, error) {
	l, err := lockJob(k.jobDir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	path := programPath(k.jobDir, k.digest)
	f, err := lockProgram(path)
	if err == nil {
		if k.isWhole(f) {
			return f, nil
		}
		f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if part == nil {
		return nil, nil
	}
	if err := explain(os.Rename(part.Name(), path)); err != nil {
		return nil, err
	}
	if err := k.step.did("program renamed"); err != nil {
		return nil, err
	}
	if err := errors.Join(syncFolder(filepath.Dir(path)), syncFolder(k.jobDir)); err != nil {
		return nil, err
	}
	if err := k.step.did("programs' folder synced"); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(part.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return lockProgram(path) // opened for reading: a file that is open for writing cannot be run
}

// isWhole tells whether f is the kept program. It reads the file once, and again only after a change: a job
// asks with every snapshot.
func (k *keeper) isWhole(f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	now := programState{st.Dev, st.Ino, st.Size, st.Ctim}
	if was, ok := k.c.programs.Load(f.Name()); ok && was == now {
		return true
	}
	if checkProgram(f.Name(), k.digest) != nil {
		return false
	}
	k.c.programs.Store(f.Name(), now)
	return true
}

// programState changes with whatever is done to a file.
type programState struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
}

// copy makes a durable copy under a name of its own and locks it. It reads the copy back and checks it against
// the digest.
func (k *keeper) copy(path string) (_ *os.File, err error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := k.create()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.Remove(to.Name())
			to.Close()
		}
	}()
	if _, err := io.Copy(to, from); err != nil {
		return nil, explain(err)
	}
	if err := k.step.did("program copied"); err != nil {
		return nil, err
	}
	if err := errors.Join(to.Chmod(0o500), to.Sync()); err != nil {
		return nil, explain(err)
	}
	if err := checkProgram(to.Name(), k.digest); err != nil {
		return nil, fmt.Errorf("%w: it has changed since the job began", err)
	}
	return to, k.step.did("program durable")
}

// create makes a file for a copy, locked. No sweep may come between the two.
func (k *keeper) create() (*os.File, error) {
	l, err := lockJob(k.jobDir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	f, err := os.CreateTemp(filepath.Join(k.jobDir, programsDir), k.digest+".*"+partSuffix)
	if err != nil {
		return nil, explain(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// lockProgram locks a kept program for use.
func lockProgram(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, explain(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// checkProgram reads a kept program and compares its sum.
func checkProgram(path, digest string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrProgram)
	}
	have, err := FileDigest(path)
	if err == nil && have != digest {
		err = fmt.Errorf("%w: digest %s instead of %s", ErrProgram, have, digest)
	}
	return err
}

// checkProgram checks the kept program of a snapshot, and its libraries.
func (s *Snapshot) checkProgram() error {
	if !s.Schema.Program.Kept {
		return nil
	}
	path := s.ProgramPath()
	if err := checkProgram(path, s.Schema.Program.Digest); err != nil {
		return fmt.Errorf("snapshot %d: kept program %s: %w (put the executable %s back there if it is still the same)",
			s.Schema.Sequence, path, withoutPath(err), s.Schema.Program.Path)
	}
	for _, digest := range s.Schema.Program.Libraries {
		path := s.LibraryPath(digest)
		if err := checkProgram(path, digest); err != nil {
			return fmt.Errorf("snapshot %d: kept library %s: %w (import its parcel again)", s.Schema.Sequence, path, withoutPath(err))
		}
	}
	return nil
}

// sweepPrograms removes the kept programs of a job that are neither used nor named by a snapshot, and what
// crashes left of others. If a schema cannot be read, it removes only the latter, because that schema may name
// any program. The caller holds the job's lock.
func (c *Catalogue) sweepPrograms(job string) (gone []string, err error) {
	dir := filepath.Join(c.JobDir(job), programsDir)
	es, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	var errs []error
	for _, e := range es {
		name, part := strings.CutSuffix(e.Name(), partSuffix)
		digest, _, _ := strings.Cut(name, ".")
		if !e.Type().IsRegular() || !isDigest(digest) || !part && name != digest {
			continue // not ours
		}
		needed := func() bool { return !part && c.namesProgram(job, digest) }
		path := filepath.Join(dir, e.Name())
		switch stays, err := removeUnless(path, needed); {
		case err != nil:
			errs = append(errs, fmt.Errorf("remove %s: %w", path, err))
		case !stays:
			gone = append(gone, path)
		}
	}
	return gone, errors.Join(errs...)
}

// removeUnless removes a program unless it is needed or locked. It asks twice whether it is needed.
// The first time keeps it from locking a program that may be used. The second time is for a user
// that has committed a snapshot and died meanwhile.
func removeUnless(path string, needed func() bool) (stays bool, err error) {
	if needed() {
		return true, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // its writer has renamed or removed it
	}
	if err != nil {
		return false, explain(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil || needed() {
		return true, nil
	}
	err = owned.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // its writer has, after it was opened here
	}
	return false, explain(err)
}

// keeps tells whether a file is kept, as the program or as a library.
func (p *Program) keeps(digest string) bool {
	return p.Kept && (p.Digest == digest || slices.Contains(p.Libraries, digest))
}

// namesProgram tells whether a snapshot of the job has kept the program, or may
// have.
func (c *Catalogue) namesProgram(job, digest string) bool {
	seqs, err := c.sequences(job)
	if err != nil {
		return true
	}
	for _, seq := range slices.Backward(seqs) {
		s, err := Load(c.dir(job, seq))
		switch {
		case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		case err != nil, s.Schema.Program.keeps(digest):
			return true
		}
	}
	return false
}
