package owned

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Many systems give each user a group with no other member and the user's name, and let groups write by default. What that group may write, nobody else may.

// onlyMyGroup reports whether of others only such a group may write. Where the group is not found in the files of this machine, it counts as shared.
func onlyMyGroup(st *unix.Stat_t) bool {
	if st.Mode&0o002 != 0 || int(st.Gid) != os.Getgid() {
		return false
	}
	name := ""
	alone := true
	passwd := func(f []string) {
		switch {
		case len(f) < 4:
		case f[2] == strconv.Itoa(os.Geteuid()):
			name = f[0]
		case f[3] == strconv.Itoa(int(st.Gid)):
			alone = false
		}
	}
	found := false
	group := func(f []string) {
		if len(f) == 4 && f[2] == strconv.Itoa(int(st.Gid)) {
			found = f[0] == name
			alone = alone && (f[3] == "" || f[3] == name)
		}
	}
	return fields("/etc/passwd", passwd) && fields("/etc/group", group) && name != "" && found && alone
}

// fields calls f with the fields of each line.
func fields(path string, f func([]string)) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f(strings.Split(lines.Text(), ":"))
	}
	return lines.Err() == nil
}

// unknownOwner reports whether an owner has no number in this user namespace: root of the machine, as a container without rights sees it, or
// somebody who is not in the container.
func unknownOwner(st *unix.Stat_t) bool {
	return int(st.Uid) == number("/proc/sys/kernel/overflowuid") && st.Mode&0o022 == 0 && !allUsers()
}

// number reads a number, -1 if there is none.
func number(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// allUsers reports whether this user namespace knows all users of the machine.
func allUsers() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err != nil || len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}
