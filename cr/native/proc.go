package native

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

// What the kernel tells in /proc/PID, parsed. The parsers take whatever a newer
// kernel may add and fail on what they cannot understand of what they need.

var le = binary.LittleEndian

// errProc is wrapped by the errors of the parsers.
var errProc = errors.New("unexpected content in /proc")

func badProc(what string, line []byte) error {
	return fmt.Errorf("%w: %s: %.80q", errProc, what, line)
}

// mapping is a line of maps; flags and the sizes come from smaps.
type mapping struct {
	start, end uint64
	prot       int
	shared     bool
	offset     uint64
	dev        uint64 // as in stat's st_dev
	inode      uint64
	path       string // a file, a name in brackets, or ""
	deleted    bool   // the file has no name any more
	flags      string // VmFlags
	own        uint64 // bytes in pages of the process's own, swapped ones included
}

func (m *mapping) anonymous() bool { return m.inode == 0 }

// lines calls f for each line of p, without its end.
func lines(p []byte, f func(line []byte) error) error {
	for len(p) > 0 {
		line, rest, _ := bytes.Cut(p, []byte{'\n'})
		if err := f(line); err != nil {
			return err
		}
		p = rest
	}
	return nil
}

// parseMaps parses /proc/PID/maps; the mappings come in order and do not overlap.
func parseMaps(p []byte) ([]mapping, error) {
	all := make([]mapping, 0, bytes.Count(p, []byte{'\n'})+1)
	err := lines(p, func(line []byte) error {
		m, err := parseMapping(line)
		if err == nil {
			all = appendMapping(all, m)
		}
		return err
	})
	return all, err
}

// appendMapping appends m. Of a process that runs the kernel may tell of the end
// of a mapping, that was changed meanwhile, once more: it is told of once.
func appendMapping(all []mapping, m mapping) []mapping {
	if n := len(all); n > 0 && m.start < all[n-1].end {
		over := all[n-1].end - m.start
		if m.end <= all[n-1].end {
			return all
		}
		m.start += over
		if m.inode != 0 {
			m.offset += over
		}
	}
	return append(all, m)
}

// parseMapping parses
//
//	7f74f83c8000-7f74f83cf000 r--s 00000000 fe:00 325737    /path of the file
func parseMapping(line []byte) (mapping, error) {
	var m mapping
	rest := line
	field := func(sep byte) string {
		f, r, _ := bytes.Cut(rest, []byte{sep})
		rest = r
		return string(f)
	}
	bad := false
	hex := func(s string) uint64 {
		v, err := strconv.ParseUint(s, 16, 64)
		bad = bad || err != nil
		return v
	}
	m.start, m.end = hex(field('-')), hex(field(' '))
	perms := field(' ')
	m.offset = hex(field(' '))
	major, minor := hex(field(':')), hex(field(' '))
	inode, err := strconv.ParseUint(field(' '), 10, 64)
	if bad || err != nil || len(perms) != 4 || m.end < m.start || m.start%PageSize != 0 || m.end%PageSize != 0 {
		return m, badProc("mapping", line)
	}
	for i, bit := range []int{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
		if perms[i] == "rwx"[i] {
			m.prot |= bit
		}
	}
	m.shared = perms[3] == 's'
	m.dev, m.inode = unix.Mkdev(uint32(major), uint32(minor)), inode
	m.path = strings.ReplaceAll(strings.TrimLeft(string(rest), " "), `\012`, "\n")
	if name, ok := strings.CutSuffix(m.path, " (deleted)"); ok && m.inode != 0 {
		m.path, m.deleted = name, true
	}
	return m, nil
}

// parseSmaps parses /proc/PID/smaps.
func parseSmaps(p []byte) ([]mapping, error) {
	var all []mapping
	err := lines(p, func(line []byte) error {
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || bytes.ContainsAny(key, " -") {
			m, err := parseMapping(line)
			if err == nil {
				all = append(all, m) // of a process that stands still
			}
			return err
		}
		if len(all) == 0 {
			return badProc("field before the first mapping", line)
		}
		m := &all[len(all)-1]
		switch string(key) {
		case "VmFlags":
			m.flags = string(bytes.TrimSpace(value))
		case "Anonymous", "Swap":
			n, err := kilobytes(value)
			if err != nil {
				return badProc("size", line)
			}
			m.own += n
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

// fdinfo is what /proc/PID/fdinfo/FD tells.
type fdinfo struct {
	pos    int64
	flags  int
	inode  uint64
	count  uint64 // eventfd; ticks of a timerfd
	sema   bool   // eventfd with EFD_SEMAPHORE
	timer  *Timer
	watch  []Watch
	target int // of a pidfd, 0 if it is none
}

// parseFdinfo parses /proc/PID/fdinfo/FD.
func parseFdinfo(p []byte) (fdinfo, error) {
	var in fdinfo
	timer := func() *Timer {
		if in.timer == nil {
			in.timer = &Timer{}
		}
		return in.timer
	}
	var flagged bool
	err := lines(p, func(line []byte) error {
		key, rest, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return nil
		}
		value := string(bytes.TrimSpace(rest))
		var err error
		switch string(key) {
		case "pos":
			in.pos, err = strconv.ParseInt(value, 10, 64)
		case "flags":
			var f int64
			f, err = strconv.ParseInt(value, 8, 32)
			in.flags, flagged = int(f), true
		case "ino":
			in.inode, err = strconv.ParseUint(value, 10, 64)
		case "eventfd-count":
			in.count, err = strconv.ParseUint(value, 16, 64)
		case "eventfd-semaphore":
			in.sema = value == "1"
		case "ticks":
			in.count, err = strconv.ParseUint(value, 10, 64)
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
		case "tfd":
			var w Watch
			w, err = parseWatch(string(line))
			in.watch = append(in.watch, w)
		case "Pid":
			in.target, err = strconv.Atoi(value)
		}
		if err != nil {
			return badProc("descriptor", line)
		}
		return nil
	})
	if err == nil && !flagged {
		err = badProc("descriptor without flags", p)
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

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	comm  string
	state byte
	ppid  int
	start uint64 // since boot, in ticks
	mm    MM     // without Brk
}

// parseStat parses /proc/PID/stat. The name may hold any character.
func parseStat(p []byte) (procStat, error) {
	var s procStat
	open, end := bytes.IndexByte(p, '('), bytes.LastIndexByte(p, ')')
	if open < 0 || end < open {
		return s, badProc("stat", p)
	}
	s.comm = string(p[open+1 : end])
	f := strings.Fields(string(p[end+1:]))
	if len(f) < 50 || len(f[0]) != 1 {
		return s, badProc("stat", p)
	}
	s.state = f[0][0]
	var err error
	num := func(n int) uint64 { // n as in proc(5)
		v, e := strconv.ParseUint(f[n-3], 10, 64)
		if e != nil {
			err = badProc("stat", p)
		}
		return v
	}
	s.ppid = int(num(4))
	s.start = num(22)
	s.mm = MM{
		StartCode: num(26), EndCode: num(27), StartStack: num(28), StartData: num(45), EndData: num(46),
		StartBrk: num(47), ArgStart: num(48), ArgEnd: num(49), EnvStart: num(50), EnvEnd: num(51),
	}
	return s, err
}

// procStatus is what is needed of /proc/PID/status.
type procStatus struct {
	umask   int
	group   int  // the process that a thread belongs to
	ended   bool // a zombie, or about to vanish
	tracer  int
	locked  uint64 // bytes
	anon    uint64 // bytes in anonymous pages, swapped ones included
	uid     int
	threads int

	noNewPrivs bool
}

// parseStatus parses /proc/PID/status.
func parseStatus(p []byte) (procStatus, error) {
	var s procStatus
	err := lines(p, func(line []byte) error {
		key, rest, _ := bytes.Cut(line, []byte{':'})
		value := strings.TrimSpace(string(rest))
		var err error
		switch string(key) {
		case "Umask":
			var v int64
			v, err = strconv.ParseInt(value, 8, 32)
			s.umask = int(v)
		case "State":
			s.ended = strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X")
		case "Tgid":
			s.group, err = strconv.Atoi(value)
		case "TracerPid":
			s.tracer, err = strconv.Atoi(value)
		case "Threads":
			s.threads, err = strconv.Atoi(value)
		case "Uid":
			real, _, _ := strings.Cut(value, "\t")
			s.uid, err = strconv.Atoi(real)
		case "NoNewPrivs":
			s.noNewPrivs = value == "1"
		case "VmLck":
			s.locked, err = kilobytes(rest)
		case "RssAnon", "VmSwap":
			var n uint64
			n, err = kilobytes(rest)
			s.anon += n
		}
		if err != nil {
			return badProc("status", line)
		}
		return nil
	})
	return s, err
}

// Bits of an entry of pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageFile    = 1 << 61 // of a file, or shared
)

// span is a run of pages; first counts from the start of what was parsed.
type span struct{ first, n int }

// ownPages lists the runs of pages, in a piece of /proc/PID/pagemap, that hold
// memory of the process's own: touched, and not (any more) a file's content.
func ownPages(p []byte) []span {
	var runs []span
	for i := 0; i+8 <= len(p); i += 8 {
		e := le.Uint64(p[i:])
		if e&(pagePresent|pageSwapped) == 0 || e&pageFile != 0 {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].first+runs[n-1].n == i/8 {
			runs[n-1].n++
		} else {
			runs = append(runs, span{i / 8, 1})
		}
	}
	return runs
}

// procFile reads /proc/PID/name whole.
func procFile(pid int, name string) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
}

// parsedProc reads /proc/PID/name and parses it.
func parsedProc[T any](pid int, name string, parse func([]byte) (T, error)) (T, error) {
	p, err := procFile(pid, name)
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

// threadsOf lists the threads of a process.
func threadsOf(pid int) ([]int, error) { return numbersIn("/proc/" + strconv.Itoa(pid) + "/task") }

// numbersIn lists the names in a folder that are numbers: threads, descriptors.
func numbersIn(dir string) ([]int, error) {
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
