//go:build linux

package restore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// imaged describes the file path as an image would, with the offset at its end.
func imaged(t *testing.T, fd int, path string, flags int) state.File {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return state.File{FD: fd, Same: fd, Kind: state.FileRegular, Path: path, Flags: flags, Offset: st.Size, Size: st.Size, Inode: st.Ino, Mode: st.Mode}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// openAll opens what a state has; it is closed with the test.
func openAll(t *testing.T, policy whole.FilesPolicy, content map[string]string, files ...state.File) (*descriptors, error) {
	t.Helper()
	d := &descriptors{
		reopener: reopener{policy: policy, tag: "abc"},
		given:    [3]int{-1, -1, -1},
		oob:      -1,
		content: func(kind, name string) ([]byte, error) {
			if s, ok := content[kind+" "+name]; ok {
				return []byte(s), nil
			}
			return nil, errNoContent
		},
	}
	s := testState(0)
	s.Files, s.OOB = files, 3
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	err := d.open(s)
	if err == nil {
		t.Cleanup(func() { d.Close(); d.unlock() })
	}
	return d, err
}

func TestReopenWritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "before")
	f := imaged(t, 5, path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC)
	second := f
	second.FD, second.Same = 6, 6
	twin := f
	twin.FD = 7 // of 5
	write(t, path, "before and after")
	d, err := openAll(t, whole.FilesRefuse, nil, f, second, twin)
	if err != nil {
		t.Fatal(err)
	}
	if d.here[7] != d.here[5] || d.here[6] == d.here[5] {
		t.Errorf("descriptors %v", d.here)
	}
	if read(t, path) != "before and after" {
		t.Error("cut before the process can go on")
	}
	if _, err := openAll(t, whole.FilesRefuse, nil, f); err == nil || !strings.Contains(err.Error(), "-files copy") || !strings.Contains(err.Error(), path) {
		t.Errorf("a second process opens it: %v", err)
	}
	if err := d.cutAll(); err != nil {
		t.Fatal(err)
	}
	unix.Write(d.here[5], []byte("+1"))
	unix.Write(d.here[6], []byte("+2"))
	if got := read(t, path); got != "before+1+2" {
		t.Errorf("the file holds %q", got)
	}
	if got := read(t, path+".gorun-abc-tail"); got != " and after" || len(d.tails) != 1 || d.tails[0] != path+".gorun-abc-tail" {
		t.Errorf("the tail holds %q, known are %q", got, d.tails)
	}
	if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		t.Error("the program cannot lock its own file")
	} else {
		unix.Close(fd)
	}
	d.unlock()
	if _, err := openAll(t, whole.FilesRefuse, nil, f); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
}

func TestReopenReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	write(t, path, "0123456789")
	f := imaged(t, 5, path, unix.O_RDONLY|unix.O_NONBLOCK)
	f.Offset = 4
	for range 2 { // nothing is locked
		d, err := openAll(t, whole.FilesRefuse, nil, f)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 10)
		if n, err := unix.Read(d.here[5], p); string(p[:n]) != "456789" {
			t.Errorf("read %q, %v", p[:n], err)
		}
		if flags, _ := unix.FcntlInt(uintptr(d.here[5]), unix.F_GETFL, 0); flags&unix.O_NONBLOCK == 0 {
			t.Errorf("flags %#x", flags)
		}
	}
}

func TestReopenRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
		for _, c := range []struct {
			name   string
			change func()
			want   string
			keep   bool // -files keep takes it
			copies bool // -files copy takes it
		}{
			{"shorter", func() { os.Truncate(path, 3) }, "it has 3 bytes", true, false},
			{"missing", func() { os.Remove(path) }, "missing", false, false},
			{"replaced by a shorter one", func() {
				write(t, path+"2", "other")
				os.Rename(path+"2", path)
			}, "it has 5 bytes", true, false},
			{"a folder", func() { os.Remove(path); os.Mkdir(path, 0o755) }, "", false, false},
			{"a pipe", func() { os.Remove(path); unix.Mkfifo(path, 0o644) }, "", false, false},
		} {
			os.RemoveAll(path)
			os.Remove(path + ".gorun-abc")
			write(t, path, "content")
			f := imaged(t, 9, path, flags)
			c.change()
			_, err := openAll(t, whole.FilesRefuse, nil, f)
			if !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(") {
				t.Errorf("%s: %v, want one that says %q", c.name, err, c.want)
			}
			if _, err := openAll(t, whole.FilesStand, nil, f); !errors.Is(err, ErrFiles) {
				t.Errorf("%s, stand: %v", c.name, err)
			}
			if _, err := openAll(t, whole.FilesKeep, nil, f); (err == nil) != c.keep {
				t.Errorf("%s, keep: %v", c.name, err)
			}
			if _, err := openAll(t, whole.FilesCopy, nil, f); flags == unix.O_RDWR && (err == nil) != c.copies {
				t.Errorf("%s, copy: %v", c.name, err)
			}
		}
	}
}

// A file that came back from a backup is taken, and cut like the old one.
func TestReopenReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "before")
	f := imaged(t, 5, path, unix.O_WRONLY)
	again := f
	again.FD, again.Same = 6, 6
	write(t, path+"2", "before and after")
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	d, err := openAll(t, whole.FilesRefuse, nil, f, again)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.notes) != 1 || !strings.Contains(d.notes[0], path+" is another file") {
		t.Errorf("notes %q", d.notes)
	}
	if err := d.cutAll(); err != nil || read(t, path) != "before" {
		t.Errorf("it holds %q, %v", read(t, path), err)
	}
}

func TestReopenTooMany(t *testing.T) {
	f := state.File{FD: 5, Path: "/data/in"}
	if err := new(reopener).failed(&f, unix.EMFILE); !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "an agent has") {
		t.Error(err)
	}
}

func TestReopenCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	write(t, path, "shared")
	f := imaged(t, 5, path, unix.O_WRONLY)
	f.Offset = 2
	write(t, path, "shared and more")
	d, err := openAll(t, whole.FilesCopy, nil, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cutAll(); err != nil {
		t.Fatal(err)
	}
	unix.Write(d.here[5], []byte("XX"))
	if read(t, path) != "shared and more" || read(t, path+".gorun-abc") != "shXXed" {
		t.Errorf("the file holds %q, the copy %q", read(t, path), read(t, path+".gorun-abc"))
	}
	// Another rank had it open a little later, when it was longer.
	f.Size, f.Offset = 8, 8
	if d, err = openAll(t, whole.FilesCopy, nil, f); err != nil {
		t.Fatal(err)
	}
	unix.Write(d.here[5], []byte("YY"))
	if got := read(t, path+".gorun-abc"); got != "shXXed aYY" {
		t.Errorf("the copy holds %q", got)
	}
}

func TestReopenKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	write(t, path, "1234")
	f := imaged(t, 5, path, unix.O_WRONLY)
	write(t, path, "12345678")
	for range 2 {
		d, err := openAll(t, whole.FilesKeep, nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.cutAll(); err != nil {
			t.Fatal(err)
		}
		unix.Write(d.here[5], []byte("x"))
	}
	if got := read(t, path); got != "1234x678" {
		t.Errorf("the file holds %q", got)
	}
}

func TestReopenDeleted(t *testing.T) {
	dir := t.TempDir()
	f := state.File{FD: 5, Same: 5, Kind: state.FileRegular, Path: filepath.Join(dir, "gone"), Deleted: true, Inode: 77, Flags: unix.O_RDWR, Offset: 3, Size: 6, Mode: unix.S_IFREG | 0o640}
	g := f
	g.FD, g.Same, g.Flags, g.Offset = 6, 6, unix.O_RDONLY, 0
	d, err := openAll(t, whole.FilesRefuse, map[string]string{"file 5": "secret"}, f, g)
	if err != nil {
		t.Fatal(err)
	}
	unix.Write(d.here[5], []byte("ond"))
	p := make([]byte, 10)
	if n, err := unix.Read(d.here[6], p); string(p[:n]) != "second" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	if _, err := unix.Write(d.here[6], p); err == nil {
		t.Error("the descriptor for reading can be written")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left there: %v", left)
	}
	if _, err := openAll(t, whole.FilesRefuse, nil, f); !errors.Is(err, ErrFiles) {
		t.Errorf("without its content: %v", err)
	}
}

// A file that never had a name comes back like one that has lost it.
func TestReopenNameless(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_TMPFILE != unix.O_TMPFILE {
		t.Fatalf("flags %#x, %v", flags, err)
	}
	f := state.File{FD: 5, Same: 5, Kind: state.FileRegular, Path: filepath.Join(dir, "#7"), Deleted: true, Inode: 77, Flags: flags, Size: 4, Mode: unix.S_IFREG | 0o600}
	d, err := openAll(t, whole.FilesRefuse, map[string]string{"file 5": "temp"}, f)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if n, err := unix.Read(d.here[5], p); string(p[:n]) != "temp" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	if _, err := unix.Write(d.here[5], p); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left there: %v", left)
	}
}

func TestReopenPipe(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	files := []state.File{
		{FD: 5, Same: 5, Kind: state.FilePipe, Pipe: 9, Flags: unix.O_RDONLY | unix.O_NONBLOCK},
		{FD: 6, Same: 6, Kind: state.FilePipe, Pipe: 9, Flags: unix.O_WRONLY | unix.O_NONBLOCK},
		{FD: 7, Same: 6, Kind: state.FilePipe, Pipe: 9, Flags: unix.O_WRONLY | unix.O_NONBLOCK},
		{FD: 8, Same: 8, Kind: state.FilePipe, Pipe: 10, Flags: unix.O_RDONLY}, // the writer is gone
	}
	d, err := openAll(t, whole.FilesRefuse, map[string]string{"pipe 5": long, "pipe 8": "last words"}, files...)
	if err != nil {
		t.Fatal(err)
	}
	unix.Write(d.here[7], []byte("end"))
	p := make([]byte, len(long)+10)
	n := 0
	for {
		k, err := unix.Read(d.here[5], p[n:])
		if err != nil {
			if err != unix.EAGAIN {
				t.Error(err)
			}
			break
		}
		n += k
	}
	if string(p[:n]) != long+"end" {
		t.Errorf("%d bytes, %d were in it", n, len(long)+3)
	}
	// Only what the process inherits keeps a pipe open.
	in, err := unix.Dup(d.here[8])
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	rest, err := io.ReadAll(os.NewFile(uintptr(in), "pipe"))
	if string(rest) != "last words" || err != nil {
		t.Errorf("read %q, %v", rest, err)
	}
}

func TestReopenOthers(t *testing.T) {
	d, err := openAll(t, whole.FilesRefuse, nil,
		state.File{FD: 0, Same: 0, Kind: state.FileStdio},
		state.File{FD: 4, Same: 2, Kind: state.FileStdio},
		state.File{FD: 5, Same: 5, Kind: state.FileEvent, Count: 7, Flags: unix.O_RDWR | unix.O_NONBLOCK},
		state.File{FD: 6, Same: 6, Kind: state.FileTimer, Count: 3, Timer: &proc.Timer{Clock: 1, Value: 3600e9, Interval: 5e9}, Flags: unix.O_RDWR | unix.O_NONBLOCK},
		state.File{FD: 7, Same: 7, Kind: state.FileSocket, Flags: unix.O_RDWR | unix.O_NONBLOCK},
		state.File{FD: 8, Same: 8, Kind: state.FileEpoll, Epoll: []proc.Watch{{FD: 5}}},
		state.File{FD: 9, Same: 9, Kind: state.FileRegular, Path: "/dev/null", Mode: unix.S_IFCHR, Flags: unix.O_RDWR},
		state.File{FD: 10, Same: 10, Kind: state.FileRegular, Path: t.TempDir(), Mode: unix.S_IFDIR, Flags: unix.O_RDONLY | unix.O_DIRECTORY},
	)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	if _, err := unix.Read(d.here[5], p); err != nil || le.Uint64(p) != 7 {
		t.Errorf("eventfd: %d, %v", le.Uint64(p), err)
	}
	if _, err := unix.Read(d.here[5], p); err != unix.EAGAIN {
		t.Errorf("eventfd, empty: %v", err)
	}
	var spec unix.ItimerSpec
	if err := unix.TimerfdGettime(d.here[6], &spec); err != nil || spec.Interval.Sec != 5 || spec.Value.Sec < 3000 {
		t.Errorf("timer: %+v, %v", spec, err)
	}
	if _, err := unix.Read(d.here[6], p); err != nil || le.Uint64(p) != 3 {
		t.Errorf("timer: %d, %v", le.Uint64(p), err)
	}
	if n, err := unix.Read(d.here[7], p); err != unix.ENOTCONN {
		t.Errorf("socket: %d, %v", n, err)
	}
	if _, err := unix.Write(d.here[7], p); err != unix.EPIPE {
		t.Errorf("socket: %v", err)
	}
	if _, _, err := unix.Accept(d.here[7]); err != unix.EINVAL {
		t.Errorf("socket: %v", err)
	}
	if _, err := openAll(t, whole.FilesRefuse, nil, state.File{FD: 3, Same: 3, Kind: state.FileOOB}); err == nil {
		t.Error("without a stream to the agent")
	}
}
