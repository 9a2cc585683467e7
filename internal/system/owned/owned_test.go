package owned

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is another user.
const stranger = 23002

// needRoot skips where files cannot be given to others.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

func folderOf(t *testing.T, path string, uid int, mode fs.FileMode) string {
	t.Helper()
	must(t, os.Mkdir(path, 0o700))
	must(t, os.Chown(path, uid, uid))
	must(t, os.Chmod(path, mode))
	return path
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	own := put(t, filepath.Join(dir, "own"), "own", 0o644)
	must(t, os.Symlink("own", filepath.Join(dir, "link")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for path, want := range map[string]error{
		own:                        nil,
		filepath.Join(dir, "link"): nil,
		dir + "/./../" + filepath.Base(dir) + "//own": nil,
		filepath.Join(dir, "none"):                    fs.ErrNotExist,
		filepath.Join(dir, "own", "x"):                unix.ENOTDIR,
		filepath.Join(dir, "loop"):                    unix.ELOOP,
		filepath.Join(dir, "pipe"):                    ErrKind,
		dir:                                           ErrKind,
		"":                                            fs.ErrNotExist,
		put(t, filepath.Join(dir, "all"), "", 0o666): ErrForeign,
	} {
		b, err := ReadFile(path)
		if !errors.Is(err, want) || err == nil && string(b) != "own" {
			t.Errorf("%s: %q, %v, want %v", path, b, err, want)
		}
	}
	t.Chdir(dir)
	if b, err := ReadFile("own"); string(b) != "own" || err != nil {
		t.Errorf("a relative path: %q, %v", b, err)
	}
}

// TestStranger lets another user plant what is possible.
func TestStranger(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	sticky := folderOf(t, filepath.Join(dir, "sticky"), 0, fs.ModeSticky|0o777)
	his := folderOf(t, filepath.Join(sticky, "his"), stranger, 0o755)
	mine := folderOf(t, filepath.Join(his, "mine"), 0, 0o700)
	own := put(t, filepath.Join(mine, "own"), "own", 0o600)
	link := filepath.Join(sticky, "link")
	must(t, os.Symlink(mine, link))
	must(t, os.Lchown(link, stranger, stranger))
	given := put(t, filepath.Join(mine, "given"), "", 0o600)
	must(t, os.Chown(given, stranger, stranger))

	if b, err := ReadFile(own); string(b) != "own" || err != nil {
		t.Errorf("an own file below a folder of another: %q, %v", b, err)
	}
	for _, path := range []string{filepath.Join(link, "own"), given} {
		if _, err := ReadFile(path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", path, err)
		}
	}
	for path, want := range map[string]error{mine: nil, his: ErrForeign, sticky: ErrForeign, link: ErrForeign, own: ErrKind} {
		d, err := OpenFolder(path)
		if !errors.Is(err, want) {
			t.Errorf("folder %s: %v, want %v", path, err, want)
		}
		if err == nil {
			d.Close()
		}
	}
	for path, want := range map[string]error{
		sticky: nil, filepath.Join(sticky, "new", "er"): nil, dir: nil,
		his: ErrForeign, mine: ErrForeign, filepath.Join(his, "new"): ErrForeign, filepath.Join(link, "new"): ErrForeign,
	} {
		if err := Settled(path); !errors.Is(err, want) {
			t.Errorf("Settled(%s): %v, want %v", path, err, want)
		}
	}
	names, others, err := Folders(sticky)
	if len(names) != 0 || others["his"] != stranger || err != nil {
		t.Errorf("folders %v, of others %v, %v", names, others, err)
	}
	if err := RemoveAll(filepath.Join(his, "mine")); !errors.Is(err, ErrForeign) {
		t.Errorf("removing from a folder of another: %v, want ErrForeign", err)
	}
}

func TestOpenLinked(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	private := put(t, filepath.Join(dir, "private"), "private", 0o600)
	own, his, left := filepath.Join(dir, "link"), filepath.Join(dir, "his"), filepath.Join(dir, "left")
	for path, to := range map[string]string{own: "private", his: "private", left: "none"} {
		must(t, os.Symlink(to, path))
	}
	must(t, os.Lchown(his, stranger, stranger))
	must(t, os.Lchown(left, stranger, stranger))
	pipe := filepath.Join(dir, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o622))
	must(t, os.Lchown(pipe, stranger, stranger))
	for _, c := range []struct {
		path string
		how  int
		want error
	}{
		{private, unix.O_RDWR, nil}, {own, unix.O_RDWR, nil}, {private, unix.O_RDWR | unix.O_NOFOLLOW, nil},
		{own, unix.O_RDWR | unix.O_NOFOLLOW, unix.ELOOP}, {private, unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, fs.ErrExist},
		{his, unix.O_RDWR, ErrForeign}, {left, unix.O_RDWR | unix.O_CREAT, ErrForeign},
		{filepath.Join(dir, "new"), unix.O_RDWR, fs.ErrNotExist}, {filepath.Join(dir, "new"), unix.O_RDWR | unix.O_CREAT, nil},
		{pipe, unix.O_WRONLY, ErrForeign}, {pipe, unix.O_WRONLY | unix.O_NONBLOCK, unix.ENXIO},
		{"/proc/self/exe", unix.O_RDONLY, nil}, {"/proc/self/fd/0", unix.O_PATH, nil},
	} {
		fd, err := OpenLinked(c.path, c.how, 0o600)
		if !errors.Is(err, c.want) {
			t.Errorf("%s, %#x: %v, want %v", c.path, c.how, err, c.want)
		}
		if err == nil {
			must(t, unix.Close(fd))
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what his link names: %v", err)
	}
}

// TestFolderStays swaps a folder for a link while it is open.
func TestFolderStays(t *testing.T) {
	dir := t.TempDir()
	precious := put(t, filepath.Join(folderOf(t, filepath.Join(dir, "home"), os.Geteuid(), 0o700), "1"), "precious", 0o600)
	at := folderOf(t, filepath.Join(dir, "at"), os.Geteuid(), 0o700)
	put(t, filepath.Join(at, "1"), "old", 0o600)
	must(t, os.Symlink(precious, filepath.Join(at, "link")))
	d, err := OpenFolder(at)
	must(t, err)
	defer d.Close()
	must(t, os.Rename(at, at+".away"))
	must(t, os.Symlink(filepath.Dir(precious), at))
	if b, err := d.ReadFile("1"); string(b) != "old" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := d.Open("link"); !errors.Is(err, ErrKind) {
		t.Errorf("a link in it: %v, want ErrKind", err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		if _, err := d.Open(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("name %q: %v, want ErrInvalid", name, err)
		}
	}
	must(t, d.RemoveAll("1"))
	must(t, d.RemoveAll("link"))
	must(t, d.RemoveAll("none"))
	if err := d.Remove("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing nothing: %v", err)
	}
	if b, err := os.ReadFile(precious); string(b) != "precious" || err != nil {
		t.Errorf("what the link leads to: %q, %v", b, err)
	}
	es, err := d.Entries()
	if len(es) != 0 || err != nil {
		t.Errorf("left: %v, %v", es, err)
	}
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		folderOf(t, filepath.Join(dir, name), os.Geteuid(), 0o700)
	}
	put(t, filepath.Join(dir, "file"), "", 0o600)
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	names, others, err := Folders(dir)
	if !slices.Equal(names, []string{"a", "b"}) || len(others) != 0 || err != nil {
		t.Errorf("%v, %v, %v", names, others, err)
	}
}
