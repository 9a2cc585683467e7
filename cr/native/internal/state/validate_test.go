package state

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// wholeState is a state in which everything occurs.
func wholeState() *State {
	log := 4
	s := plainState(
		Region{Start: 0x400000, End: 0x500000, Prot: 5, Path: "/bin/program"},
		Region{Start: 0xc000000000, End: 0xc004000000, Prot: 3, Path: "[anon: Go: heap]", Flags: "rd wr nh"},
		Region{Start: 0x7ffe00000000, End: 0x7ffe00001000, Prot: 1, Path: "/SYSV00000007", Inode: 3, Shared: true, SysV: true},
		Region{Start: 0x7ffe00001000, End: 0x7ffe00002000, Prot: 3, Path: "/SYSV00000007", Offset: 0x1000, Inode: 3, Shared: true, SysV: true},
		Region{Start: 0x7fff00000000, End: 0x7fff00021000, Prot: 3, Path: "[stack]", Flags: "rd wr gd"},
		Region{Start: 0xffffffffff600000, End: 0xffffffffff601000, Prot: 4, Path: "[vsyscall]"},
	)
	s.SysV = []Segment{{ID: 3, Key: 7, Mode: 0o1600, Size: 0x1005, Creator: 100}}
	s.Terminals = []Terminal{{Gone: true}, {Number: 2, Settings: make([]byte, SettingsSize), Lines: [][]byte{[]byte("a\n")}, Typed: []byte("b"), Output: []byte("c")}}
	s.Comm = "program"
	s.Cmdline, s.Environ = []byte("program\x00-v\x00"), []byte("A=1\x00")
	s.Auxv = make([]byte, 64)
	s.OOB = 3
	s.MM = proc.MM{StartCode: 0x400000, EndCode: 0x500000}
	s.VDSO = VDSO{Start: 0x7ffff7fc3000, End: 0x7ffff7fc5000, Symbols: map[string]uint64{"__vdso_time": 0x900},
		VVar: []Region{{Start: 0x7ffff7fbd000, End: 0x7ffff7fc1000}, {Start: 0x7ffff7fc1000, End: 0x7ffff7fc3000}}}
	info := make([]byte, SigInfoSize)
	info[0] = 10
	s.Shared = [][]byte{info}
	s.Threads = append(s.Threads, Thread{TID: 101, Regs: make([]byte, RegsSize), XState: make([]byte, XStateHeader), Pending: [][]byte{info}})
	s.Actions = make([]SigAction, NumSignals)
	s.Files = []File{
		{FD: 0, Kind: FileStdio, Same: 0}, {FD: 1, Kind: FileStdio, Same: 1}, {FD: 7, Kind: FileStdio, Same: 2},
		{FD: 3, Kind: FileOOB, Same: 3},
		{FD: 4, Kind: FileRegular, Same: 4, Path: "/tmp/log", Offset: 12, Size: 12},
		{FD: 5, Kind: FileRegular, Same: 4, Path: "/tmp/log", Offset: 12, Size: 12},
		{FD: 6, Kind: FileEpoll, Same: 6, Epoll: []proc.Watch{{FD: 8, Events: 1, Data: 2}}},
		{FD: 8, Kind: FileTimer, Same: 8, Timer: &proc.Timer{Clock: 1}},
		{FD: 9, Kind: FilePty, Same: 9, Number: 2, Master: true}, {FD: 10, Kind: FilePty, Same: 10, Number: 2}, {FD: 11, Kind: FilePty, Same: 11},
		{FD: 12, Kind: FileInotify, Same: 12, Watched: []Watched{{Number: 1, Mask: 2, Path: "/tmp"}, {Number: 7, Mask: 2, Of: &log}}},
	}
	return s
}

// plainState is a valid state with the regions given.
func plainState(regions ...Region) *State {
	return &State{
		PID: 100, Exe: "/bin/program", Dir: "/", Regions: regions,
		Threads: []Thread{{TID: 100, Regs: make([]byte, RegsSize), XState: make([]byte, XStateHeader)}},
	}
}

func TestValidate(t *testing.T) {
	none := 99
	if err := wholeState().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *State){
		"process id":       func(s *State) { s.PID = 0 },
		"umask":            func(s *State) { s.Umask = 0o1000 },
		"name":             func(s *State) { s.Comm = "much longer than this" },
		"executable":       func(s *State) { s.Exe = "program" },
		"folder":           func(s *State) { s.Dir = "" },
		"auxv":             func(s *State) { s.Auxv = make([]byte, 7) },
		"actions":          func(s *State) { s.Actions = s.Actions[1:] },
		"layout":           func(s *State) { s.MM.EndCode = 1 },
		"layout, kernel":   func(s *State) { s.MM.EndCode = 1 << 63 },
		"shared signal":    func(s *State) { s.Shared[0] = s.Shared[0][1:] },
		"signal number":    func(s *State) { s.Shared[0] = make([]byte, SigInfoSize) },
		"unaligned":        func(s *State) { s.Regions[0].Start++ },
		"no region":        func(s *State) { s.Regions[0].End = s.Regions[0].Start },
		"low":              func(s *State) { s.Regions[0].Start = 0 },
		"high":             func(s *State) { s.Regions[4].End = 1 << 47 },
		"overlap":          func(s *State) { s.Regions[1].Start = s.Regions[0].Start },
		"order":            func(s *State) { s.Regions[0], s.Regions[1] = s.Regions[1], s.Regions[0] },
		"protection":       func(s *State) { s.Regions[0].Prot = 8 },
		"offset":           func(s *State) { s.Regions[0].Offset = 1 },
		"shared and empty": func(s *State) { s.Regions[0].Shared, s.Regions[0].Empty = true, true },
		"vdso place":       func(s *State) { s.VDSO.Start, s.VDSO.End = 0x400000, 0x402000 },
		"vdso size":        func(s *State) { s.VDSO.End += 1 << 30 },
		"vdso function":    func(s *State) { s.VDSO.Symbols["x"] = 0x2000 },
		"vvar":             func(s *State) { s.VDSO.VVar[0].Start = 0xc000000000 },
		"vvar behind":      func(s *State) { s.VDSO.VVar[1].End = s.VDSO.End },
		"no thread":        func(s *State) { s.Threads = nil },
		"leader":           func(s *State) { s.Threads[0].TID = 5 },
		"twin":             func(s *State) { s.Threads[1].TID = 100 },
		"registers":        func(s *State) { s.Threads[1].Regs = nil },
		"vectors":          func(s *State) { s.Threads[1].XState = make([]byte, 100) },
		"thread's signal":  func(s *State) { s.Threads[1].Pending[0] = nil },
		"descriptor":       func(s *State) { s.Files[0].FD = -1 },
		"huge descriptor":  func(s *State) { s.Files[0].FD = maxFD },
		"two descriptors":  func(s *State) { s.Files[0].FD = 1 },
		"same as none":     func(s *State) { s.Files[5].Same = 2 },
		"same as later":    func(s *State) { s.Files[4].Same = 5 },
		"same of another":  func(s *State) { s.Files[5].Same = 3 },
		"stream":           func(s *State) { s.Files[2].Same = 3 },
		"agent":            func(s *State) { s.OOB = 9 },
		"path":             func(s *State) { s.Files[4].Path = "log" },
		"file offset":      func(s *State) { s.Files[4].Offset = -1 },
		"file in place":    func(s *State) { s.Files[4].Written, s.Files[4].Deleted = true, true },
		"timer":            func(s *State) { s.Files[7].Timer = nil },
		"timer's number":   func(s *State) { s.Timers = []proc.Created{{ID: -1}} },
		"interval timer":   func(s *State) { s.Itimers = make([]Itimer, 2) },
		"lock":             func(s *State) { s.Files[4].Locks = []proc.Lock{{Class: "LEASE"}} },
		"owner":            func(s *State) { s.Files[4].Owner = &Owner{ID: 1 << 20} },
		"no socket":        func(s *State) { s.Files[4].Socket = &Socket{} },
		"own memory":       func(s *State) { s.Regions[0].Own = true },
		"written file":     func(s *State) { s.Regions[0].Written = true },
		"segment twice":    func(s *State) { s.SysV = append(s.SysV, s.SysV[0]) },
		"segment's size":   func(s *State) { s.SysV[0].Size = 1 << 40 },
		"segment's mode":   func(s *State) { s.SysV[0].Mode = 0o4000 },
		"segment's maker":  func(s *State) { s.SysV[0].Creator = 5 },
		"no segment":       func(s *State) { s.SysV = nil },
		"torn segment":     func(s *State) { s.Regions[3].Offset = 0x2000 },
		"half a segment":   func(s *State) { s.Regions[3].SysV = false },
		"private segment":  func(s *State) { s.Regions[2].Shared = false },
		"terminal twice":   func(s *State) { s.Terminals[0].Number = 2 },
		"high terminal":    func(s *State) { s.Terminals[0].Number = MaxTerminals },
		"settings":         func(s *State) { s.Terminals[1].Settings = make([]byte, 9) },
		"typed":            func(s *State) { s.Terminals[1].Typed = make([]byte, maxTyped+1) },
		"typed at none":    func(s *State) { s.Terminals[0].Typed = []byte("x") },
		"no session":       func(s *State) { s.Terminals[1].Session = 100 },
		"no group":         func(s *State) { s.Terminals[1].Team = 100 },
		"no terminal":      func(s *State) { s.Files[9].Number = 7 },
		"no other side":    func(s *State) { s.Files[8].Master = false },
		"two other sides":  func(s *State) { s.Files[9].Master = true },
		"side of none":     func(s *State) { s.Files[10].Master = true },
		"watch's number":   func(s *State) { s.Files[11].Watched[1].Number = 1 },
		"high watch":       func(s *State) { s.Files[11].Watched[1].Number = MaxWatched + 1 },
		"watch of nothing": func(s *State) { s.Files[11].Watched[0].Path = "" },
		"watch of none":    func(s *State) { s.Files[11].Watched[1].Of = &none },
		"watch of two":     func(s *State) { s.Files[11].Watched[1].Path = "/tmp" },
		"kind":             func(s *State) { s.Files[6].Kind = "door" },
	} {
		s := wholeState()
		spoil(s)
		if err := s.Validate(); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzState: a state that is not valid is refused by an error, and a valid one is
// encoded and decoded to the same.
func FuzzState(f *testing.F) {
	seed, err := wholeState().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"pid":1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		var s, again State
		if json.Unmarshal(p, &s) != nil || s.Validate() != nil {
			return
		}
		first, err := json.Marshal(&s)
		if err == nil {
			err = json.Unmarshal(first, &again)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
