package proc

import (
	"strconv"
	"strings"
)

// Files in /proc that belong to a process: its own are opened again by the restored
// process itself, since they are another's until it lives.

// OfProcess splits the name of such a file: whose it is, and its name there.
func OfProcess(path string) (pid int, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return 0, "", false
	}
	number, name, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	return pid, name, err == nil && pid > 0
}

// OwnName gives the name under which process pid, by its first thread, finds the
// file again that was open as path; "" if it is not one of its own.
func OwnName(pid int, path string) string {
	whose, name, ok := OfProcess(path)
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
