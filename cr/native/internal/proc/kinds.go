package proc

import "github.com/gorun-mpi/gorun/internal/system/procfs"

// Timer is the setting of a timerfd, in nanoseconds.
type Timer struct {
	Clock    int   `json:"clock"`
	Flags    int   `json:"flags"`
	Value    int64 `json:"value"`
	Interval int64 `json:"interval"`
}

// Watch is one descriptor in an epoll set.
type Watch struct {
	FD     int    `json:"fd"`
	Events uint32 `json:"events"`
	Data   uint64 `json:"data"`
	// As is the number by which the process has it, if FD is not or is something else by now.
	As *int `json:"as,omitempty"`
}

// MM is the layout that prctl PR_SET_MM_MAP takes.
type MM struct {
	StartCode, EndCode, StartData, EndData, StartBrk, Brk, StartStack uint64
	ArgStart, ArgEnd, EnvStart, EnvEnd                                uint64
}

// MMOf is the layout of a process, except Brk.
func MMOf(l procfs.Layout) MM {
	return MM{
		StartCode: l.StartCode, EndCode: l.EndCode, StartStack: l.StartStack, StartData: l.StartData, EndData: l.EndData,
		StartBrk: l.StartBrk, ArgStart: l.ArgStart, ArgEnd: l.ArgEnd, EnvStart: l.EnvStart, EnvEnd: l.EnvEnd,
	}
}
