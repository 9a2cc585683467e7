package criu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Format counts changes of State and of the sections beside it.
const Format = 1

// Kinds of sections.
const (
	kindProcess = "process" // State
	kindFile    = "criu"    // a file that criu wrote
	nameState   = "state"
)

// State is what an image holds beside criu's own files: the JSON of section
// "state".
type State struct {
	PID     int    `json:"pid"`
	Rank    int    `json:"rank"`
	OOB     int    `json:"oob"`              // number of the descriptor to the agent
	Socket  string `json:"socket"`           // its name in /proc, "socket:[1234]"
	Unread  []byte `json:"unread,omitempty"` // bytes that had arrived there and were not yet read
	Program string `json:"program"`          // path of the executable
	// Std are the names of descriptors 0, 1 and 2, "" where they are not pipes
	// and come back by themselves.
	Std [3]string `json:"std"`
	// Files were open for writing.
	Files []File `json:"files,omitempty"`
}

// File is a regular file that was open for writing.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// each returns st with what f makes of the names of files: they are bytes, and
// JSON is UTF-8 text.
func (st *State) each(f func(string) string) State {
	c := *st
	c.Program, c.Files = f(c.Program), slices.Clone(c.Files)
	for i := range c.Files {
		c.Files[i].Path = f(c.Files[i].Path)
	}
	return c
}

// record records what must be known before criu is called.
func record(pid, rank, oob int) (*State, error) {
	st := &State{PID: pid, Rank: rank, OOB: oob}
	proc := "/proc/" + strconv.Itoa(pid)
	var err error
	if st.Program, err = os.Readlink(proc + "/exe"); err != nil {
		return nil, err
	}
	if st.Socket, err = os.Readlink(fmt.Sprintf("%s/fd/%d", proc, oob)); err != nil {
		return nil, err
	}
	if _, err := inode(st.Socket); err != nil {
		return nil, fmt.Errorf("descriptor %d, the stream to the agent, is %s", oob, st.Socket)
	}
	for fd := range st.Std {
		name, err := os.Readlink(fmt.Sprintf("%s/fd/%d", proc, fd))
		if err == nil && (strings.HasPrefix(name, "pipe:[") || strings.HasPrefix(name, "socket:[")) {
			st.Std[fd] = name
		}
	}
	return st, nil
}

// inode takes the number out of "socket:[1234]".
func inode(name string) (uint64, error) {
	_, s, ok := strings.Cut(name, "socket:[")
	if !ok {
		return 0, fmt.Errorf("%q is no socket", name)
	}
	return strconv.ParseUint(strings.TrimSuffix(s, "]"), 10, 32)
}

// freeze adds what can only be known while the process stands still.
func (st *State) freeze() error {
	if err := st.peek(); err != nil {
		return fmt.Errorf("reading what has arrived on descriptor %d: %w", st.OOB, err)
	}
	return st.output()
}

// peek copies what the process has not yet read of its stream, and leaves it there.
func (st *State) peek() error {
	p, err := unix.PidfdOpen(st.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, st.OOB, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	if err != nil || n == 0 {
		return err
	}
	buf := make([]byte, n)
	got, _, err := unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err == nil && got < n {
		err = fmt.Errorf("%d of %d bytes", got, n)
	}
	st.Unread = buf[:max(got, 0)]
	return err
}

// output lists the regular files open for writing and their sizes.
func (st *State) output() error {
	proc := "/proc/" + strconv.Itoa(st.PID)
	entries, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		path, err := os.Readlink(proc + "/fd/" + e.Name())
		if err != nil || !filepath.IsAbs(path) || seen[path] || !forWriting(proc+"/fdinfo/"+e.Name()) {
			continue
		}
		// Through /proc: the path may by now be another file's.
		fi, err := os.Stat(proc + "/fd/" + e.Name())
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // deleted: criu keeps its content
		}
		seen[path] = true
		st.Files = append(st.Files, File{Path: path, Size: fi.Size()})
	}
	return nil
}

// forWriting reads the access mode in an fdinfo file.
func forWriting(path string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if s, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(s), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}

// ReadState reads what the image path holds beside criu's files.
func ReadState(path string) (*State, error) { return readSource(image.Path(path)) }

func readSource(src image.Source) (*State, error) {
	r, err := src.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readState(r)
}

func readState(r *image.Reader) (*State, error) {
	m := r.Meta()
	if m.Backend != Name || m.Format != Format {
		return nil, fmt.Errorf("%w: %s: back-end %q, format %d, wanted %q, %d", ErrImage, r.Path(), m.Backend, m.Format, Name, Format)
	}
	sec, ok := r.Lookup(kindProcess, nameState)
	if !ok || sec.Size > maxState {
		return nil, fmt.Errorf("%w: %s: no section %q of up to %d bytes", ErrImage, r.Path(), nameState, maxState)
	}
	buf := make([]byte, sec.Size)
	if err := r.ReadSection(kindProcess, nameState, buf); err != nil {
		return nil, err
	}
	st := new(State)
	if err := json.Unmarshal(buf, st); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrImage, r.Path(), err)
	}
	*st = st.each(rawstring.Unescape)
	return st, nil
}

// maxState bounds what is believed of an image.
const maxState = 64 << 20
