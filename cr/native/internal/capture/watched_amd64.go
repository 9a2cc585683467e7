package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// The names of files that are known by their inodes: privilege finds them by their handles. Without it they
// are looked for where the program may have them from: what it has open or mapped, its folder,
// its arguments and environment, the folders of these and what is below. Whether a file is the one the kernel
// is asked, by watching it, too: it tells both in the same words, on every file system.

// watched is where a file is that is watched: its name, or one of the process's descriptors where it has none.
type watched struct {
	path string
	fd   int
}

// name gives a name by which it may be looked at from here.
func (w watched) name(pid int) string {
	if w.path == "" {
		return fdPath(pid, w.fd)
	}
	return w.path
}

// maxLooks bounds for how many names of files a search looks.
const maxLooks = 200_000

// lookForWatched finds the names of what is watched and was not found before, or is elsewhere now.
func (g *Target) lookForWatched(files []proc.Inotify) error {
	if len(files) == 0 {
		return nil
	}
	s := search{wanted: map[proc.Inode]bool{}, numbers: map[uint64]bool{}, found: map[proc.Inode]watched{}, left: maxLooks}
	var known []proc.Inode
	var names []string
	for _, w := range files {
		if at, ok := g.watched[w.File]; ok {
			known, names = append(known, w.File), append(names, at.name(g.PID))
		} else {
			s.want(w.File)
		}
	}
	now, err := inodesOf(names)
	if err != nil {
		return err
	}
	for i, file := range known {
		if now[i] == file {
			s.found[file] = g.watched[file]
		} else {
			s.want(file)
		}
	}
	if err := g.find(&s); err != nil {
		return err
	}
	g.watched = s.found
	for file := range s.wanted {
		major, minor := file.Numbers()
		return refusal.New("watch what the program has among its arguments, in its environment or below its folder, or run the agent as root",
			"inotify that watches the inode %d of the device %d:%d, whose name was not found", file.Number, major, minor)
	}
	return nil
}

// find looks wherever a file may be, until all are found.
func (g *Target) find(s *search) error {
	if len(s.wanted) == 0 {
		return nil
	}
	mounts, err := proc.Parsed(os.Getpid(), "mountinfo", proc.ParseMounts)
	if err != nil {
		return err
	}
	var places []string
	for _, look := range []func() error{
		func() error { return s.byHandles(mounts) },
		func() error { return s.byDescriptors(g.PID) },
		func() error {
			for _, m := range append([]*Target{g, g.head()}, g.relatives()...) {
				places = append(places, m.places()...)
			}
			for file := range s.wanted {
				for _, m := range mounts {
					if m.Device == file.Device {
						places = append(places, m.Point)
					}
				}
			}
			places = withParents(places)
			return s.byNames(places)
		},
		func() error { return s.below(places) },
	} {
		if err := look(); err != nil || len(s.wanted) == 0 {
			return err
		}
	}
	return nil
}

// relatives gives those of the family that descend from the first, if g is that.
func (g *Target) relatives() []*Target { return slices.Collect(maps.Values(g.kin)) }

// search is one that is under way.
type search struct {
	wanted  map[proc.Inode]bool
	numbers map[uint64]bool // of these
	found   map[proc.Inode]watched
	left    int // names that it may look at yet
}

func (s *search) want(file proc.Inode) { s.wanted[file], s.numbers[file.Number] = true, true }

// try checks whether a name is that of a wanted file.
func (s *search) try(name string, at watched) (is bool, err error) {
	now, err := inodesOf([]string{name})
	if err != nil || !s.wanted[now[0]] {
		return false, err
	}
	delete(s.wanted, now[0])
	s.found[now[0]] = at
	return true, nil
}

// byHandles opens files by the handles that the kernel tells, as privilege may.
func (s *search) byHandles(mounts []proc.Mount) error {
	for _, file := range slices.Collect(maps.Keys(s.wanted)) {
		for _, m := range mounts {
			if file.Handle == "" || m.Device != file.Device {
				continue
			}
			path, err := openHandle(m.Point, file)
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			if err != nil {
				continue
			}
			if is, err := s.try(path, watched{path: path}); err != nil {
				return err
			} else if is {
				break
			}
		}
	}
	return nil
}

// openHandle gives the name of a file of the file system at a place.
func openHandle(place string, file proc.Inode) (string, error) {
	root, err := unix.Open(place, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	fd, err := unix.OpenByHandleAt(root, unix.NewFileHandle(int32(file.Kind), []byte(file.Handle)), unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// byDescriptors looks at what a process has open, be it deleted.
func (s *search) byDescriptors(pid int) error {
	fds, err := proc.Numbers(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	for _, fd := range fds {
		_, stat := statFile(pid, fd)
		if stat == nil || !s.numbers[stat.Ino] {
			continue
		}
		at := watched{fd: fd}
		link, err := os.Readlink(fdPath(pid, fd))
		if err != nil {
			continue
		}
		if stat.Nlink > 0 && !strings.HasPrefix(link, "/memfd:") {
			at.path = link
		}
		if _, err := s.try(at.name(pid), at); err != nil {
			return err
		}
	}
	return nil
}

// places lists names that a process has of files, the likeliest first.
func (g *Target) places() []string {
	dir, _, _ := workingDir(g.PID)
	all := []string{dir}
	for _, name := range []string{"cmdline", "environ"} {
		text, _ := proc.Read(g.PID, name)
		for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\x00=:,;", r) }) {
			path := string(word)
			if name == "cmdline" && !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			all = append(all, path)
		}
	}
	fds, _ := proc.Numbers(fmt.Sprintf("/proc/%d/fd", g.PID))
	for _, fd := range fds {
		link, _ := os.Readlink(fdPath(g.PID, fd))
		all = append(all, link)
	}
	maps, _ := proc.Parsed(g.PID, "maps", proc.ParseMaps)
	for i := range maps {
		all = append(all, maps[i].Path)
	}
	return all
}

// withParents gives those names that are of files, once each, with the folders that they are in.
func withParents(names []string) []string {
	var all []string
	seen := map[string]bool{}
	for _, name := range names {
		if !filepath.IsAbs(name) || len(name) > 4096 {
			continue
		}
		for path := filepath.Clean(name); !seen[path]; path = filepath.Dir(path) {
			seen[path] = true
			all = append(all, path)
		}
	}
	return slices.DeleteFunc(all, func(path string) bool {
		var st unix.Stat_t
		return unix.Lstat(path, &st) != nil
	})
}

// byNames looks at files by their names, and where links among these lead.
func (s *search) byNames(names []string) error {
	for _, name := range names {
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil {
			continue
		}
		if s.numbers[st.Ino] {
			if _, err := s.try(name, watched{path: name}); err != nil {
				return err
			}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || unix.Stat(name, &st) != nil || !s.numbers[st.Ino] {
			continue
		}
		if path, err := filepath.EvalSymlinks(name); err == nil {
			if _, err := s.try(path, watched{path: path}); err != nil {
				return err
			}
		}
	}
	return nil
}

// below looks through folders, level by level, those first in which something was found: a program
// that watches a tree watches all of its folders.
func (s *search) below(folders []string) error {
	seen := map[string]bool{}
	var good []string
	for len(s.wanted) > 0 && s.left > 0 && len(good)+len(folders) > 0 {
		from := &folders
		if len(good) > 0 {
			from = &good
		}
		dir := (*from)[0]
		*from = (*from)[1:]
		if seen[dir] || dir == "/proc" || dir == "/sys" {
			continue
		}
		seen[dir] = true
		for _, e := range entries(dir) {
			s.left--
			path := filepath.Join(dir, e.name)
			is := false
			if s.numbers[e.inode] {
				var err error
				if is, err = s.try(path, watched{path: path}); err != nil {
					return err
				}
			}
			switch {
			case e.kind != unix.DT_DIR:
			case is:
				good = append(good, path)
			default:
				folders = append(folders, path)
			}
		}
	}
	return nil
}

// entry is a name in a folder.
type entry struct {
	name  string
	inode uint64
	kind  byte
}

// entries lists a folder with what the folder itself knows of the files.
func entries(dir string) (all []entry) {
	const inodeAt, lengthAt, kindAt, nameAt = 0, 16, 18, 19 // struct linux_dirent64
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	p := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, p)
		if err != nil || n == 0 {
			return all
		}
		for at := p[:n]; len(at) > nameAt; at = at[le.Uint16(at[lengthAt:]):] {
			name, _, _ := bytes.Cut(at[nameAt:le.Uint16(at[lengthAt:])], []byte{0})
			if s := string(name); s != "." && s != ".." {
				all = append(all, entry{s, le.Uint64(at[inodeAt:]), at[kindAt]})
			}
		}
	}
}

// inodesOf tells which files have names, as the kernel does of what inotify watches; none of those that cannot
// be watched.
func inodesOf(names []string) ([]proc.Inode, error) {
	const most = 256 // at a time, since the user may not watch many more
	if len(names) == 0 {
		return nil, nil
	}
	if len(names) > most {
		first, err := inodesOf(names[:most])
		if err != nil {
			return nil, err
		}
		others, err := inodesOf(names[most:])
		return append(first, others...), err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("looking for what inotify watches: %w (raise fs.inotify.max_user_instances)", err)
	}
	defer unix.Close(fd)
	numbers := make([]int, len(names))
	for i, name := range names {
		mask := uint32(unix.IN_DELETE_SELF)
		if !strings.HasPrefix(name, "/proc/") { // names that were found go through no link
			mask |= unix.IN_DONT_FOLLOW
		}
		numbers[i], err = unix.InotifyAddWatch(fd, name, mask)
		if errors.Is(err, unix.ENOSPC) {
			return nil, fmt.Errorf("looking for what inotify watches: %w (raise fs.inotify.max_user_watches)", err)
		}
		if err != nil {
			numbers[i] = -1
		}
	}
	in, err := proc.Parsed(os.Getpid(), "fdinfo/"+strconv.Itoa(fd), proc.ParseFDInfo)
	if err != nil {
		return nil, err
	}
	by := map[int]proc.Inode{}
	for _, w := range in.Files {
		by[w.Number] = w.File
	}
	all := make([]proc.Inode, len(names))
	for i, n := range numbers {
		all[i] = by[n]
	}
	return all, nil
}
