// Package proc reads what the system tells of processes, and ends children of this one.
package proc

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Signal finds a signal by its name, with or without SIG, or its number.
func Signal(s string) (syscall.Signal, bool) {
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

// Wait reaps one child that is known to have ended or to end at once.
func Wait(pid int) syscall.WaitStatus {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err != syscall.EINTR {
			return ws
		}
	}
}

// End kills children and reaps them. It waits for all at once: the first process of a namespace is over only when all others
// of it are reaped.
func End(pids []int) {
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	var wg sync.WaitGroup
	for _, pid := range pids {
		wg.Go(func() { Wait(pid) })
	}
	wg.Wait()
}

// EndAll ends all children, and what comes to this process as they end.
func EndAll() {
	for pids := Children(); len(pids) > 0; pids = Children() {
		End(pids)
	}
}

// Children lists the children of this process, dead but unreaped ones too. The list is read until it comes out
// twice the same: where a thread or a child ends while it is read, another child may be passed over.
func Children() []int {
	all := listChildren()
	for range 20 {
		again := listChildren()
		if slices.Equal(all, again) {
			break
		}
		all = again
	}
	return all
}

func listChildren() (pids []int) {
	defer func() { slices.Sort(pids) }()
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
		if st, ok := procfs.ReadStat(pid); ok && st.PPID == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Value reads a line "NAME   123 kB"; 0 if it is not there.
func Value(file, name string) uint64 { return Sum(file, name) }

// Sum adds such lines, which it reads at one time.
func Sum(file string, names ...string) (sum uint64) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) >= 2 && slices.Contains(names, f[0]) {
			kb, _ := strconv.ParseUint(f[1], 10, 64)
			sum += kb << 10
		}
	}
	return sum
}

// Slowness is how many times as long a process takes as on an idle machine, at least 1. It is the
// number of processes that want to run for each processor.
func Slowness() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return slowness(b, runtime.NumCPU())
}

// slowness uses the number of processes that want to run now, and its mean over a minute.
func slowness(loadavg []byte, processors int) float64 {
	f := bytes.Fields(loadavg)
	if len(f) < 4 {
		return 1
	}
	now, _, _ := strings.Cut(string(f[3]), "/")
	most := 0.0
	for _, s := range []string{string(f[0]), now} {
		if n, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			most = max(most, n)
		}
	}
	return max(1, most/float64(processors))
}
