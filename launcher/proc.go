package launcher

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bigEndian reports the byte order of this machine.
func bigEndian() bool {
	return binary.NativeEndian.Uint16([]byte{0, 1}) == 1
}

// siginfoPid is the si_pid of a SIGCHLD's siginfo: on 64-bit Linux the union
// begins at byte 16 with it.
func siginfoPid(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

// children lists the children of this process, dead but unreaped ones too.
func children() []int {
	var pids []int
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if os.IsNotExist(err) {
			if _, err := os.Stat("/proc/self/task/" + t.Name()); err == nil {
				return childrenByScan() // a kernel without that file
			}
			continue // the thread ended
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByScan does the same by looking at every process.
func childrenByScan() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, ok := readStat(pid); ok && st.ppid == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	ppid int
}

func readStat(pid int) (st procStat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return st, false
	}
	return parseStat(b)
}

// parseStat starts behind the program's name, which may hold anything.
func parseStat(b []byte) (st procStat, ok bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return st, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 2 {
		return st, false
	}
	ppid, err := strconv.Atoi(string(f[1]))
	return procStat{ppid: ppid}, err == nil
}

// signalByName finds a signal by its name, with or without SIG, or its number.
func signalByName(s string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n), n > 0 && n < 65
	}
	s = strings.ToUpper(s)
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	sig := unix.SignalNum(s)
	return sig, sig != 0
}
