package launcher

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	state byte
	ppid  int
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
	return procStat{state: f[0][0], ppid: ppid}, err == nil
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
