// Package state is what a native image says of a process beside its memory: the format
// of that, how it is read and written, and what makes it valid.
//
// An image is a file of package image with these sections:
//
//	kind      name           content
//	process   state          State of the first process, as JSON; that names the others
//	pages     00c000400000   the pages of the window that begins there; its type lists them
//	file      7              content of the deleted file that is open as 7
//	shared    17             content of shared memory of its own with the inode 17
//	sysv      32768          content of the System V shared memory with this id
//	pipe      8              content of the pipe whose lowest descriptor is 8
//
// Sections of a process that descends from the first have its id before their name: the state of
// process 57 is in "57/state", its pages are in "57/00c000400000". Shared memory is that of all.
//
// Nothing here looks at a process. Whoever reads a State may rely on Validate: numbers
// are in their range, regions are apart from each other, descriptors exist.
package state

import (
	"github.com/gorun-mpi/gorun/internal/offload"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// Backend is the name of the back-end that stands in images.
const Backend = "native"

// Format counts changes of State and of the sections beside it. Since 2 threads have what C
// needs; images of before are of Go without C. Since 3 there may be processes that descend from
// the first, since 4 timers on the time of one thread; an image without any is still of format 2.
const (
	Format        = 2
	FormatFamily  = 3
	FormatOfTimer = 4
)

// FormatOf is the format that an image of these processes needs, the first of the family before the others.
func FormatOf(family ...*State) int {
	format := Format
	if len(family) > 1 || len(family[0].Ended) > 0 {
		format = FormatFamily
	}
	for _, s := range family {
		if slices.ContainsFunc(s.Timers, func(t proc.Created) bool { return t.OnThread() }) {
			format = FormatOfTimer
		}
	}
	return format
}

// State is what an image holds of a process beside its memory: the JSON of
// section "state", where what is not UTF-8 of a name is escaped as package rawstring
// has it.
type State struct {
	PID      int     `json:"pid"` // when it was imaged
	Rank     int     `json:"rank"`
	OOB      int     `json:"oob"`               // number of the descriptor to the agent
	Unread   []byte  `json:"unread,omitempty"`  // bytes that had arrived there and were not yet read
	Base     int     `json:"base,omitempty"`    // sequence of the snapshot that holds the pages marked b
	BuildID  string  `json:"build_id"`          // Go build id of the executable
	Exe      string  `json:"exe"`               // its path then
	ExeSum   string  `json:"exe_sum,omitempty"` // SHA-256, hex
	Dir      string  `json:"dir"`
	DirGone  bool    `json:"dir_gone,omitempty"` // it was deleted
	Umask    int     `json:"umask"`
	Comm     string  `json:"comm"`
	Cmdline  []byte  `json:"cmdline"` // as in /proc/PID/cmdline
	Environ  []byte  `json:"environ"`
	Auxv     []byte  `json:"auxv"`
	MM       proc.MM `json:"mm"`
	Host     Host    `json:"host"`
	Mono     int64   `json:"mono"` // CLOCK_MONOTONIC when it was stopped, ns
	Boottime int64   `json:"boottime"`

	Regions []Region       `json:"regions"`
	Guards  []pages.Extent `json:"guards,omitempty"` // guard pages in them
	Locked  []Locked       `json:"locked,omitempty"`
	Apart   []Apart        `json:"apart,omitempty"`
	VDSO    VDSO           `json:"vdso"`
	Threads []Thread       `json:"threads"` // the leader first
	Actions []SigAction    `json:"actions"` // signals 1 to 64
	Shared  [][]byte       `json:"shared,omitempty"`
	Files   []File         `json:"files"`

	// What the program may have asked for; images of before have none of it.
	Limits     []Limit `json:"limits,omitempty"` // by resource, RLIMIT_CPU first
	NoNewPrivs bool    `json:"no_new_privs,omitempty"`
	Private    bool    `json:"private,omitempty"` // PR_SET_DUMPABLE is off; imaged with privilege
	Subreaper  bool    `json:"subreaper,omitempty"`
	Membarrier uint64  `json:"membarrier,omitempty"`    // registrations, as MEMBARRIER_CMD_GET_REGISTRATIONS tells them
	OOMAdj     *int    `json:"oom_score_adj,omitempty"` // if it is not that of the agent

	NoTHP       bool           `json:"no_thp,omitempty"`      // PR_SET_THP_DISABLE
	Personality uint64         `json:"personality,omitempty"` // as personality(2) gives it
	Itimers     []Itimer       `json:"itimers,omitempty"`     // of setitimer: real, virtual, profile; none if none runs
	Timers      []proc.Created `json:"timers,omitempty"`      // of timer_create

	SysV      []Segment  `json:"sysv,omitempty"`      // System V shared memory of the family; of the first
	Terminals []Terminal `json:"terminals,omitempty"` // pseudo-terminals of the family; of the first

	Kin    *Kin  `json:"kin,omitempty"`    // nil: it is the first of its family
	Family []int `json:"family,omitempty"` // ids of those that descend from it, each after its parent; of the first
	Ended  []Kin `json:"ended,omitempty"`  // those that have ended and are not waited for; of the first

	Members []*State `json:"-"` // the family, by these ids
}

// NumItimers is the number of timers of setitimer.
const NumItimers = 3

// Itimer is one of them, in microseconds.
type Itimer struct {
	Interval int64 `json:"interval"`
	Left     int64 `json:"left"`
}

// Limit is a resource limit.
type Limit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
	// Own tells that the program has lowered the hard one.
	Own bool `json:"own,omitempty"`
}

// NumLimits is the number of resources that the kernel limits.
const NumLimits = 16

// Registrations for membarrier(2), which are also the commands that make them.
const (
	MembarrierGlobal  = 1 << 2
	MembarrierPrivate = 1 << 4
	MembarrierCore    = 1 << 6
	MembarrierRseq    = 1 << 8
	MembarrierAll     = MembarrierGlobal | MembarrierPrivate | MembarrierCore | MembarrierRseq
)

// Host is what the image expects of the machine it goes on on.
type Host struct {
	Kernel string   `json:"kernel"`
	CPU    string   `json:"cpu"`
	Flags  []string `json:"flags"` // instruction set extensions
	XSave  uint64   `json:"xsave"` // state components in use
}

// PosixMemory is where memory of shm_open is, which has a name and is a file to nobody else: memory
// mapped there holds nothing worth keeping.
const PosixMemory = "/dev/shm/"

// Region is one mapping of the address space. The kernel's own (vdso, vvar,
// vsyscall) are not among State.Regions. Those of the executable have State.Exe
// as their path, whether that still has the name or not; a private mapping of
// another file that was deleted, or is small, is anonymous here and saved whole. A shared one
// is of a file that the program can only read, and is mapped again. Memory that the
// transport shares with other ranks is private here, and empty.
type Region struct {
	Start  uint64 `json:"start"`
	End    uint64 `json:"end"`
	Prot   int    `json:"prot"`
	Shared bool   `json:"shared,omitempty"`
	Path   string `json:"path,omitempty"` // of a mapped file, or a name in brackets
	Offset uint64 `json:"offset,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Digest string `json:"digest,omitempty"` // of the file, if it is small enough, as a library is; a restart takes any file of that content
	Flags  string `json:"flags,omitempty"`  // VmFlags of smaps
	// Empty regions are made again and not filled: MAP_DROPPABLE.
	Empty bool `json:"empty,omitempty"`
	// Own tells shared memory that no other process has: its content is in the section
	// "shared" of its inode, or is that of a deleted file that is open.
	Own bool `json:"own,omitempty"`
	// Written tells such memory that is a file with a name: a restart gives that the content, or makes it anew with the mode.
	Written bool   `json:"written,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	// SysV tells System V shared memory, whose id is the inode.
	SysV bool `json:"sysv,omitempty"`
}

// Kernels says whether the kernel maps the region itself.
func (r *Region) Kernels() bool {
	switch r.Path {
	case "[vdso]", "[vsyscall]":
		return true
	}
	return strings.HasPrefix(r.Path, "[vvar")
}

// OfFile says whether the region maps a file.
func (r *Region) OfFile() bool { return len(r.Path) > 0 && r.Path[0] == '/' && !r.SysV }

// RingMemory is what the memory is called, as /proc shows it, that a rank shares with an offload process (package offload). It is still while the rank
// is imaged, and a restored rank shares it with another.
const RingMemory = "/memfd:" + offload.RingName

// Ring says whether the region is of such memory.
func (r *Region) Ring() bool { return r.Shared && r.Path == RingMemory }

// Has says whether the region has a flag of smaps' VmFlags.
func (r *Region) Has(flag string) bool {
	return slices.Contains(strings.Fields(r.Flags), flag)
}

// Locked is memory that mlock keeps in place. If it is whole, every page of it was
// there.
type Locked struct {
	pages.Extent
	Whole bool `json:"whole,omitempty"`
}

// Apart is memory that children do not get (MADV_DONTFORK), or get empty (MADV_WIPEONFORK).
type Apart struct {
	pages.Extent
	Withheld bool `json:"withheld,omitempty"`
	Wiped    bool `json:"wiped,omitempty"`
}

// MaxVDSO bounds what is taken for the kernel's code in a process.
const MaxVDSO = 1 << 20

// VDSO is the kernel's own code in the address space.
type VDSO struct {
	Start   uint64            `json:"start"`
	End     uint64            `json:"end"`
	VVar    []Region          `json:"vvar"` // in front of it
	Sum     string            `json:"sum"`  // SHA-256 of its bytes, hex
	Symbols map[string]uint64 `json:"symbols"`
	// Busy: a thread handles a signal that had interrupted it in there. It can
	// go on only where the vdso is the same.
	Busy bool `json:"busy,omitempty"`
}

// Thread is one thread.
type Thread struct {
	TID      int       `json:"tid"`
	Regs     []byte    `json:"regs"`   // struct user_regs_struct, mended: the thread goes on with them
	XState   []byte    `json:"xstate"` // NT_X86_XSTATE
	Mask     uint64    `json:"mask"`
	AltStack [3]uint64 `json:"altstack"` // sp, flags, size
	Pending  [][]byte  `json:"pending,omitempty"`
	Comm     string    `json:"comm"`
	Nice     int       `json:"nice,omitempty"` // its priority
	CPUs     []byte    `json:"cpus,omitempty"` // the processors it is bound to, as a mask; none: those of the agent

	Tidy   uint64    `json:"tidy,omitempty"`   // where the kernel clears its id at its end (set_tid_address)
	Robust [2]uint64 `json:"robust,omitzero"`  // its list of robust locks: where, and the size of the head
	Rseq   *Rseq     `json:"rseq,omitempty"`   // its restartable sequences, if it has registered any
	Policy *Policy   `json:"policy,omitempty"` // of scheduling, if it is not the usual one
	Slack  uint64    `json:"slack,omitempty"`  // of its timers, in ns, if it is not the usual one
}

// Rseq is where a thread and the kernel tell each other of restartable sequences.
type Rseq struct {
	Area uint64 `json:"area"`
	Size uint32 `json:"size"`
	Sig  uint32 `json:"sig"`
}

// Policy is how a thread is scheduled, in the terms of sched_setattr.
type Policy struct {
	Policy   uint32 `json:"policy"`
	Flags    uint64 `json:"flags,omitempty"`
	Priority uint32 `json:"priority,omitempty"`
	Runtime  uint64 `json:"runtime,omitempty"`
	Deadline uint64 `json:"deadline,omitempty"`
	Period   uint64 `json:"period,omitempty"`
}

// UsualSlack is the default slack of timers.
const UsualSlack = 50_000

// SigAction is the kernel's struct sigaction.
type SigAction struct {
	Handler, Flags, Restorer, Mask uint64
}

// Kinds of File.
const (
	FileRegular = "file"    // reopened by its path
	FileStdio   = "stdio"   // 0, 1 or 2 as the launcher has given it
	FileOOB     = "oob"     // the stream to the agent
	FileSocket  = "socket"  // comes back closed, unless it has a Socket; also memory of the transport
	FilePipe    = "pipe"    // both ends in this process
	FileEpoll   = "epoll"   //
	FileEvent   = "eventfd" //
	FileTimer   = "timerfd" //
	FileSignal  = "signalfd"
	FilePidfd   = "pidfd" // of a process of the family
	FileInotify = "inotify"
	FilePty     = "pty" // one side of a Terminal
)

// File is one descriptor. The content of a deleted file, and that of a pipe, are
// in the section named by the lowest descriptor of its inode.
type File struct {
	FD      int    `json:"fd"`
	Kind    string `json:"kind"`
	Same    int    `json:"same"` // the lowest descriptor of the same open file description; FD itself if it is that; of stdio the stream, 0 to 2
	Path    string `json:"path,omitempty"`
	Flags   int    `json:"flags"` // as in fdinfo, O_CLOEXEC included
	Offset  int64  `json:"offset,omitempty"`
	Size    int64  `json:"size,omitempty"` // of a regular file when it was imaged
	Dev     uint64 `json:"dev,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	Born    int64  `json:"born,omitempty"` // of an output: Unix time in ns, by which other nodes tell it from another file with its name and inode; 0: not known
	Mode    uint32 `json:"mode,omitempty"`
	Deleted bool   `json:"deleted,omitempty"` // content is in section kind "file"
	Written bool   `json:"written,omitempty"` // it is changed in place: content is in section kind "shared", by its inode
	Pipe    uint64 `json:"pipe,omitempty"`    // inode of the pipe
	From    *Ref   `json:"from,omitempty"`    // the first of another process, before this one, with the same open file description
	Target  int    `json:"target,omitempty"`  // of a pidfd: a process of the family
	Number  int    `json:"number,omitempty"`  // of a pseudo-terminal
	Master  bool   `json:"master,omitempty"`  // its other side, where what is typed comes from
	Count   uint64 `json:"count,omitempty"`   // eventfd; timerfd: ticks
	Sema    bool   `json:"sema,omitempty"`    // eventfd with EFD_SEMAPHORE

	Timer *proc.Timer  `json:"timer,omitempty"`
	Epoll []proc.Watch `json:"epoll,omitempty"`

	Watched []Watched `json:"watched,omitempty"` // of inotify, by number

	Signals uint64      `json:"signals,omitempty"` // of a signalfd
	Locks   []proc.Lock `json:"locks,omitempty"`
	Owner   *Owner      `json:"owner,omitempty"` // who gets signals about it (O_ASYNC)
	Seals   int         `json:"seals,omitempty"` // of memory with a descriptor
	Socket  *Socket     `json:"socket,omitempty"`
	Room    int         `json:"room,omitempty"` // of a pipe, in bytes
}

// Owner is who gets signals about a descriptor, in the terms of F_SETOWN_EX; its number
// is the process's or a thread's then.
type Owner struct {
	Type   int `json:"type"`
	ID     int `json:"id"`
	Signal int `json:"signal,omitempty"`
}

// First tells the first descriptor of an open file description in the family.
func (f *File) First() bool { return f.Same == f.FD && f.From == nil }

// InPlace tells a file that may be changed elsewhere than at its end. What a program may read as well it may find again, wherever it stands:
// one that counts in a file of one line is at its end each time.
func (f *File) InPlace() bool {
	return f.Output() && f.Flags&unix.O_APPEND == 0 && (f.Flags&unix.O_ACCMODE == unix.O_RDWR || f.Offset != f.Size)
}

// Statistics tells the file of what a Java machine counts, which is mapped for whoever wants to look on (jstat). No data belongs to it.
func Statistics(path string) bool { return strings.Contains(path, "/hsperfdata_") }

// Output reports whether f is a regular file that is still there under its name
// and may be written to.
func (f *File) Output() bool {
	return f.Kind == FileRegular && !f.Deleted && f.Flags&unix.O_ACCMODE != unix.O_RDONLY &&
		f.Flags&unix.O_PATH == 0 && f.Mode&unix.S_IFMT == unix.S_IFREG
}
