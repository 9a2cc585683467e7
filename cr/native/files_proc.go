package native

import (
	"strconv"
	"strings"
)

// Files in /proc that belong to a process: its own are opened again by the restored
// process itself, since they are another's until it lives.

// ofProcess splits the name of such a file: whose it is, and its name there.
func ofProcess(path string) (pid int, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return 0, "", false
	}
	number, name, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	return pid, name, err == nil && pid > 0
}

// ownProc gives the name under which process pid, by its first thread, finds the
// file anew that was open as path; "" if it is none of its own.
func ownProc(pid int, path string) string {
	whose, name, ok := ofProcess(path)
	if !ok || whose != pid {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, "task/"); ok {
		number, rest, _ := strings.Cut(rest, "/")
		if number != strconv.Itoa(pid) {
			return "" // another thread's, which has another number then
		}
		return strings.TrimSuffix("/proc/thread-self/"+rest, "/")
	}
	return strings.TrimSuffix("/proc/self/"+name, "/")
}

// ownProc gives the name under which the process finds the file anew.
func (s *State) ownProc(f *File) string {
	if f.Kind != FileRegular || f.Deleted {
		return ""
	}
	return ownProc(s.PID, f.Path)
}

// checkProc refuses what belongs to another process, or to one thread: by the time
// of a restart its number may be anybody's.
func checkProc(pid int, path string) error {
	if _, _, ok := ofProcess(path); ok && ownProc(pid, path) == "" {
		return refuse("close it while checkpoints are taken, and open it when it is needed", "%s, a file of another process or of one thread", path)
	}
	return nil
}
