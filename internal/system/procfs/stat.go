// Package procfs reads what gorun uses of /proc and what several packages ask for.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Stat is what gorun uses of /proc/PID/stat, of a process or of a thread.
type Stat struct {
	Comm   string
	State  byte
	PPID   int
	TTY    uint64        // device number of its controlling terminal, 0 if it has none
	Faults uint64        // pages that it was given without a read from the disk, by all its threads
	System time.Duration // on a processor within the kernel, by all threads that there ever were
	Start  uint64        // since boot, in ticks
	Sends  int           // the signal that its parent gets when it ends; -1 for a thread
	Exit   int           // its status as wait gives it, once it has ended
	Layout Layout

	flags   uint64 // PF_...
	pending uint64 // signals 1 to 31 that wait for this thread alone
}

// Layout is where the parts of its memory begin and end.
type Layout struct {
	StartCode, EndCode, StartStack, StartData, EndData, StartBrk, ArgStart, ArgEnd, EnvStart, EnvEnd uint64
}

// tick is the unit of times in /proc/PID/stat. It is the same on every Linux.
const tick = 10 * time.Millisecond

// ReadStat reads the file of a process. ok is false if there is no such process.
func ReadStat(pid int) (s Stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	s, err = ParseStat(b)
	return s, err == nil
}

// ParseStat parses the file's text. The name may hold any character.
func ParseStat(p []byte) (Stat, error) {
	bad := fmt.Errorf("/proc/PID/stat: cannot read %.200q", p)
	open, end := bytes.IndexByte(p, '('), bytes.LastIndexByte(p, ')')
	if open < 0 || end < open {
		return Stat{}, bad
	}
	f := strings.Fields(string(p[end+1:]))
	if len(f) < 50 || len(f[0]) != 1 {
		return Stat{}, bad
	}
	var failed error
	num := func(n int) uint64 { // n as in proc(5)
		v, err := strconv.ParseUint(f[n-3], 10, 64)
		if err != nil {
			failed = bad
		}
		return v
	}
	s := Stat{
		Comm: string(p[open+1 : end]), State: f[0][0], PPID: int(num(4)), TTY: num(7), Faults: num(10), System: time.Duration(num(15)) * tick,
		Start: num(22), Exit: int(num(52)), flags: num(9), pending: num(31),
		Layout: Layout{
			StartCode: num(26), EndCode: num(27), StartStack: num(28), StartData: num(45), EndData: num(46),
			StartBrk: num(47), ArgStart: num(48), ArgEnd: num(49), EnvStart: num(50), EnvEnd: num(51),
		},
	}
	var err error
	if s.Sends, err = strconv.Atoi(f[38-3]); err != nil {
		failed = bad
	}
	return s, failed
}

// Ended reports whether the process has ended, reaped or not.
func (s *Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// Ending reports whether the thread or process has ended, or is about to: it has begun
// to give up what it had, or was killed and has not run since.
func (s *Stat) Ending() bool {
	const (
		exiting = 4      // PF_EXITING
		killed  = 1 << 8 // SIGKILL, which each thread of a killed process has pending
	)
	return s.Ended() || s.flags&exiting != 0 || s.pending&killed != 0
}
