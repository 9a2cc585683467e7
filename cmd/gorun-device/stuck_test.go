package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// within has a command that does not end say what all processes of the job are at, and end. GORUN_DEVICE_LIMIT is after how many seconds.
func (j *jobs) within() *time.Timer {
	return time.AfterFunc(time.Duration(testenv.Number(j.t, "GORUN_DEVICE_LIMIT", 600))*time.Second, j.stuck)
}

// kinds are those of the processes of a job, the innermost first.
var kinds = []string{"offload process", "rank", "agent", "command"}

// stuck ends all processes of the job by SIGABRT, the innermost first: what each one says of itself then finds its way to the output of the job.
func (j *jobs) stuck() {
	all := j.alive()
	for _, kind := range kinds {
		var ends []int
		for _, pid := range all[kind] {
			state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			fmt.Printf("stuck: %s %s", kind, state)
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				ends = append(ends, fd)
			}
			syscall.Kill(pid, syscall.SIGABRT)
		}
		for _, fd := range ends {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 3000) // at most so many milliseconds: it may hang in the kernel
			unix.Close(fd)
		}
	}
}

// alive are the processes of the folder's programs, by their kind.
func (j *jobs) alive() map[string][]int {
	all := map[string][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		exe, _ := os.Readlink(name + "/exe")
		if filepath.Dir(exe) != j.dir {
			continue
		}
		line, _ := os.ReadFile(name + "/cmdline")
		kind := "rank"
		switch {
		case filepath.Base(exe) == "gorun-device":
			kind = "offload process"
		case strings.Contains(string(line), "\x00__agent\x00"):
			kind = "agent"
		case filepath.Base(exe) == "gorun":
			kind = "command"
		}
		pid, _ := strconv.Atoi(filepath.Base(name))
		all[kind] = append(all[kind], pid)
	}
	return all
}
