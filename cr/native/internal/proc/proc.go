// Package proc parses what the kernel tells in /proc/PID. The parsers take whatever
// a newer kernel may add, and fail on what they cannot understand of what they need.
package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pageSize is the unit of mappings.
const pageSize = 4096

// errProc is wrapped by the errors of the parsers.
var errProc = errors.New("unexpected content in /proc")

// bad is the error of a parser, with the beginning of what it does not understand.
func bad(what string, line []byte) error {
	return fmt.Errorf("%w: %s: %.80q", errProc, what, line)
}

// Mapping is a line of maps; flags and the sizes come from smaps.
type Mapping struct {
	Start, End uint64
	Prot       int
	Shared     bool
	Offset     uint64
	dev        uint64 // as in stat's st_dev
	Inode      uint64
	Path       string // a file, a name in brackets, or ""
	Deleted    bool   // the file has no name any more
	Flags      string // VmFlags
	Own        uint64 // bytes in pages of the process's own, swapped ones included
}

// Anonymous tells whether the mapping is of no file.
func (m *Mapping) Anonymous() bool { return m.Inode == 0 && !m.OfSysV() }

// OfSysV tells System V shared memory. The inode is its id, which may be 0.
func (m *Mapping) OfSysV() bool { return m.Shared && m.Deleted && strings.HasPrefix(m.Path, "/SYSV") }

// Has tells whether the mapping has a flag of smaps.
func (m *Mapping) Has(flag string) bool {
	for f := range strings.FieldsSeq(m.Flags) {
		if f == flag {
			return true
		}
	}
	return false
}

// Kernels tells the mappings that the kernel makes by itself.
func (m *Mapping) Kernels() bool {
	return m.Path == "[vdso]" || m.Path == "[vsyscall]" || strings.HasPrefix(m.Path, "[vvar")
}

// eachLine calls f for each line of p, without its end.
func eachLine(p []byte, f func(line []byte) error) error {
	for len(p) > 0 {
		line, rest, _ := bytes.Cut(p, []byte{'\n'})
		if err := f(line); err != nil {
			return err
		}
		p = rest
	}
	return nil
}

// ParseMaps parses /proc/PID/maps; the mappings come in order and do not overlap.
func ParseMaps(p []byte) ([]Mapping, error) {
	all := make([]Mapping, 0, bytes.Count(p, []byte{'\n'})+1)
	err := eachLine(p, func(line []byte) error {
		m, err := ParseMapping(line)
		if err == nil {
			all = appendMapping(all, m)
		}
		return err
	})
	return all, err
}

// appendMapping appends m. Of a process that runs the kernel may tell of the end
// of a mapping, that was changed meanwhile, once more: it is reported once.
func appendMapping(all []Mapping, m Mapping) []Mapping {
	if n := len(all); n > 0 && m.Start < all[n-1].End {
		over := all[n-1].End - m.Start
		if m.End <= all[n-1].End {
			return all
		}
		m.Start += over
		if m.Inode != 0 {
			m.Offset += over
		}
	}
	return append(all, m)
}

// ParseMapping parses
//
//	7f74f83c8000-7f74f83cf000 r--s 00000000 fe:00 325737    /path of the file
func ParseMapping(line []byte) (Mapping, error) {
	var m Mapping
	rest := line
	field := func(sep byte) string {
		f, r, _ := bytes.Cut(rest, []byte{sep})
		rest = r
		return string(f)
	}
	broken := false
	hex := func(s string) uint64 {
		v, err := strconv.ParseUint(s, 16, 64)
		broken = broken || err != nil
		return v
	}
	m.Start, m.End = hex(field('-')), hex(field(' '))
	perms := field(' ')
	m.Offset = hex(field(' '))
	major, minor := hex(field(':')), hex(field(' '))
	inode, err := strconv.ParseUint(field(' '), 10, 64)
	if broken || err != nil || len(perms) != 4 || m.End < m.Start || m.Start%pageSize != 0 || m.End%pageSize != 0 {
		return m, bad("mapping", line)
	}
	for i, bit := range []int{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
		if perms[i] == "rwx"[i] {
			m.Prot |= bit
		}
	}
	m.Shared = perms[3] == 's'
	m.dev, m.Inode = unix.Mkdev(uint32(major), uint32(minor)), inode
	m.Path = strings.ReplaceAll(strings.TrimLeft(string(rest), " "), `\012`, "\n")
	if name, ok := strings.CutSuffix(m.Path, " (deleted)"); ok && (m.Inode != 0 || strings.HasPrefix(name, "/SYSV")) {
		m.Path, m.Deleted = name, true
	}
	return m, nil
}

// ParseSmaps parses /proc/PID/smaps.
func ParseSmaps(p []byte) ([]Mapping, error) {
	var all []Mapping
	err := eachLine(p, func(line []byte) error {
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || bytes.ContainsAny(key, " -") {
			m, err := ParseMapping(line)
			if err == nil {
				all = append(all, m) // of a process that stands still
			}
			return err
		}
		if len(all) == 0 {
			return bad("field before the first mapping", line)
		}
		m := &all[len(all)-1]
		switch string(key) {
		case "VmFlags":
			m.Flags = string(bytes.TrimSpace(value))
		case "Anonymous", "Swap":
			n, err := kilobytes(value)
			if err != nil {
				return bad("size", line)
			}
			m.Own += n
		}
		return nil
	})
	return all, err
}

// kilobytes parses "  12 kB".
func kilobytes(p []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(p), []byte(" kB"))), 10, 54)
	return n << 10, err
}

// FDInfo is what /proc/PID/fdinfo/FD tells.
type FDInfo struct {
	Pos    int64
	Flags  int
	inode  uint64
	Count  uint64 // eventfd; ticks of a timerfd
	Sema   bool   // eventfd with EFD_SEMAPHORE
	Timer  *Timer
	Watch  []Watch
	Mask   uint64 // of a signalfd
	Files  []Inotify
	Locks  []Lock
	Target int // of a pidfd, -1 if that was waited for, 0 if it is none
	Number int // of the pseudo-terminal whose other side it is
}

// ParseFDInfo parses /proc/PID/fdinfo/FD.
func ParseFDInfo(p []byte) (FDInfo, error) {
	var in FDInfo
	timer := func() *Timer {
		if in.Timer == nil {
			in.Timer = &Timer{}
		}
		return in.Timer
	}
	var flagged bool
	err := eachLine(p, func(line []byte) error {
		key, rest, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return nil
		}
		value := string(bytes.TrimSpace(rest))
		var err error
		switch string(key) {
		case "pos":
			in.Pos, err = strconv.ParseInt(value, 10, 64)
		case "flags":
			var f int64
			f, err = strconv.ParseInt(value, 8, 32)
			in.Flags, flagged = int(f), true
		case "ino":
			in.inode, err = strconv.ParseUint(value, 10, 64)
		case "eventfd-count":
			in.Count, err = strconv.ParseUint(value, 16, 64)
		case "eventfd-semaphore":
			in.Sema = value == "1"
		case "ticks":
			in.Count, err = strconv.ParseUint(value, 10, 64)
		case "clockid":
			timer().Clock, err = strconv.Atoi(value)
		case "settime flags":
			var f int64
			f, err = strconv.ParseInt(value, 8, 32)
			timer().Flags = int(f)
		case "it_value":
			timer().Value, err = parseSpan(value)
		case "it_interval":
			timer().Interval, err = parseSpan(value)
		case "lock":
			var l Lock
			l, err = parseLock(value)
			in.Locks = append(in.Locks, l)
		case "sigmask":
			in.Mask, err = strconv.ParseUint(value, 16, 64)
		case "tfd":
			var w Watch
			w, err = parseWatch(string(line))
			in.Watch = append(in.Watch, w)
		case "inotify wd":
			var w Inotify
			w, err = parseInotify(string(line))
			in.Files = append(in.Files, w)
		case "Pid":
			in.Target, err = strconv.Atoi(value)
		case "tty-index":
			in.Number, err = strconv.Atoi(value)
		}
		if err != nil {
			return bad("descriptor", line)
		}
		return nil
	})
	if err == nil && !flagged {
		err = bad("descriptor without flags", p)
	}
	return in, err
}

// parseSpan parses "(seconds, nanoseconds)".
func parseSpan(s string) (int64, error) {
	sec, ns, ok := strings.Cut(strings.Trim(s, "()"), ",")
	a, err1 := strconv.ParseInt(strings.TrimSpace(sec), 10, 33)
	b, err2 := strconv.ParseInt(strings.TrimSpace(ns), 10, 33)
	if !ok || err1 != nil || err2 != nil {
		return 0, errProc
	}
	return a*1e9 + b, nil
}

// parseWatch parses
//
//	tfd:        5 events: 8000201d data:     7fd3c0ffeee0  pos:0 ino:b4 sdev:9
func parseWatch(line string) (Watch, error) {
	var w Watch
	f := strings.Fields(strings.ReplaceAll(line, ":", ": "))
	value := func(key string, base, bits int) uint64 {
		for i := 0; i+1 < len(f); i++ {
			if f[i] == key+":" {
				if v, err := strconv.ParseUint(f[i+1], base, bits); err == nil {
					return v
				}
			}
		}
		f = nil
		return 0
	}
	w.FD = int(value("tfd", 10, 31))
	w.Events = uint32(value("events", 16, 32))
	w.Data = value("data", 16, 64)
	if f == nil {
		return Watch{}, errProc
	}
	return w, nil
}

// Status is the needed part of /proc/PID/status.
type Status struct {
	Umask   int
	Group   int  // the process that a thread belongs to
	Ended   bool // a zombie, or about to vanish
	Tracer  int
	Inner   int    // its number in its own namespace, 0 if the kernel does not tell
	Team    int    // its process group's there, 0 if that is outside
	Session int    // its session's there, 0 if that is outside
	Locked  uint64 // bytes
	Anon    uint64 // bytes in anonymous pages, swapped ones included
	uid     int
	Threads int

	NoNewPrivs bool
}

// ParseStatus parses /proc/PID/status.
func ParseStatus(p []byte) (Status, error) {
	var s Status
	err := eachLine(p, func(line []byte) error {
		key, rest, _ := bytes.Cut(line, []byte{':'})
		value := strings.TrimSpace(string(rest))
		var err error
		switch string(key) {
		case "Umask":
			var v int64
			v, err = strconv.ParseInt(value, 8, 32)
			s.Umask = int(v)
		case "State":
			s.Ended = strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X")
		case "Tgid":
			s.Group, err = strconv.Atoi(value)
		case "NSpid":
			s.Inner, err = lastNumber(value)
		case "NSpgid":
			s.Team, err = lastNumber(value)
		case "NSsid":
			s.Session, err = lastNumber(value)
		case "TracerPid":
			s.Tracer, err = strconv.Atoi(value)
		case "Threads":
			s.Threads, err = strconv.Atoi(value)
		case "Uid":
			real, _, _ := strings.Cut(value, "\t")
			s.uid, err = strconv.Atoi(real)
		case "NoNewPrivs":
			s.NoNewPrivs = value == "1"
		case "VmLck":
			s.Locked, err = kilobytes(rest)
		case "RssAnon", "VmSwap":
			var n uint64
			n, err = kilobytes(rest)
			s.Anon += n
		}
		if err != nil {
			return bad("status", line)
		}
		return nil
	})
	return s, err
}

// lastNumber parses the last of several, which is that of the innermost namespace.
func lastNumber(list string) (int, error) {
	return strconv.Atoi(list[strings.LastIndexByte(list, '\t')+1:])
}

// Bits of an entry of pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageFile    = 1 << 61 // of a file, or shared
)

// Span is a run of pages; first counts from the start of what was parsed.
type Span struct{ First, N int }

// OwnPages lists the runs of pages, in a piece of /proc/PID/pagemap, that hold
// memory of the process's own: touched, and not (any more) a file's content.
func OwnPages(p []byte) []Span {
	var runs []Span
	for i := 0; i+8 <= len(p); i += 8 {
		e := binary.LittleEndian.Uint64(p[i:])
		if e&(pagePresent|pageSwapped) == 0 || e&pageFile != 0 {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].First+runs[n-1].N == i/8 {
			runs[n-1].N++
		} else {
			runs = append(runs, Span{i / 8, 1})
		}
	}
	return runs
}

// ParseNumber parses a file that holds one number, as oom_score_adj does.
func ParseNumber(p []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(p)))
	if err != nil {
		return 0, bad("number", p)
	}
	return n, nil
}

// Nice gives the priority of a thread, from -20 to 19.
func Nice(tid int) (int, error) {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	return 20 - p, err // so the kernel has it
}

// Read reads /proc/PID/name whole.
func Read(pid int, name string) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
}

// Parsed reads /proc/PID/name and parses it.
func Parsed[T any](pid int, name string, parse func([]byte) (T, error)) (T, error) {
	p, err := Read(pid, name)
	if err != nil {
		var none T
		return none, err
	}
	v, err := parse(p)
	if err != nil {
		err = fmt.Errorf("/proc/%d/%s: %w", pid, name, err)
	}
	return v, err
}

// CountThreads tells how many threads a process has by the kernel's own count, which
// no list shows in one moment.
func CountThreads(pid int) (int, error) {
	const folder = 2 // links of the folder itself
	var st unix.Stat_t
	path := "/proc/" + strconv.Itoa(pid) + "/task"
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return int(st.Nlink) - folder, nil
}

// Threads lists the threads of a process.
func Threads(pid int) ([]int, error) { return Numbers("/proc/" + strconv.Itoa(pid) + "/task") }

// Numbers lists the names in a folder that are numbers: threads, descriptors.
func Numbers(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}
