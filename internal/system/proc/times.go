package proc

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Times tells how the threads of a process have had the processors.
type Times struct {
	System  time.Duration // within the kernel, all threads that there ever were
	threads map[int]thread
}

// thread is one that lives.
type thread struct{ run, wait time.Duration }

// Use is what has come between two looks.
type Use struct {
	Run    time.Duration // on a processor
	System time.Duration // of that, within the kernel
	Wait   time.Duration // ready to run, and no processor was free
}

// ReadTimes looks at a process; false if there is none, or the kernel does not tell how long threads wait (CONFIG_SCHED_INFO).
func ReadTimes(pid int) (t Times, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	s, ok := procfs.ReadStat(pid)
	if !ok {
		return t, false
	}
	t.System = s.System
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return t, false
	}
	t.threads = map[int]thread{}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if b, err := os.ReadFile(dir + "/task/" + task.Name() + "/schedstat"); err == nil {
			if th, ok := parseSchedstat(b); ok {
				t.threads[tid] = th
			}
		}
	}
	return t, len(t.threads) > 0
}

// parseSchedstat reads the first two fields of /proc/PID/task/TID/schedstat: on a processor, and waiting for one.
func parseSchedstat(b []byte) (th thread, ok bool) {
	f := bytes.Fields(b)
	if len(f) < 2 {
		return th, false
	}
	run, err := strconv.ParseUint(string(f[0]), 10, 63)
	wait, werr := strconv.ParseUint(string(f[1]), 10, 63)
	return thread{time.Duration(run), time.Duration(wait)}, err == nil && werr == nil
}

// Since is what has come since an earlier look. What a thread had that has ended since is left out.
func (t Times) Since(before Times) (u Use) {
	u.System = t.System - before.System
	for tid, now := range t.threads {
		was := before.threads[tid]
		if now.run < was.run {
			was = thread{} // another thread of that number
		}
		u.Run += now.run - was.run
		u.Wait += max(0, now.wait-was.wait)
	}
	return u
}
