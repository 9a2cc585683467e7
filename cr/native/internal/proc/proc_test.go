package proc

import (
	"encoding/binary"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

func TestParseMaps(t *testing.T) {
	m, err := ParseMaps([]byte("00400000-00401000 r-xp 00001000 fe:00 42     /a b\\012c (deleted)\n" +
		"00402000-00404000 rw-s 00000000 00:01 0                                  /SYSV00000000 (deleted)\n" + // the first of a machine
		"7ffde91fa000-7ffde921b000 rw-s 00000000 00:00 0                          [stack]\n"))
	want := []Mapping{
		{Start: 0x400000, End: 0x401000, Prot: unix.PROT_READ | unix.PROT_EXEC, Offset: 0x1000,
			dev: unix.Mkdev(0xfe, 0), Inode: 42, Path: "/a b\nc", Deleted: true},
		{Start: 0x402000, End: 0x404000, Prot: unix.PROT_READ | unix.PROT_WRITE, Shared: true, dev: unix.Mkdev(0, 1), Path: "/SYSV00000000", Deleted: true},
		{Start: 0x7ffde91fa000, End: 0x7ffde921b000, Prot: unix.PROT_READ | unix.PROT_WRITE, Shared: true, Path: "[stack]"},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, %v", m, err)
	}
	if err == nil && (m[1].Anonymous() || !m[1].OfSysV() || m[0].OfSysV()) {
		t.Error("which are System V memory?")
	}
}

// TestMapsOfRunning: what is told twice because it changed is taken once.
func TestMapsOfRunning(t *testing.T) {
	m, err := ParseMaps([]byte("00400000-00404000 r-xp 00001000 fe:00 42 /a\n" +
		"00402000-00406000 r-xp 00003000 fe:00 42 /a\n00405000-00406000 rw-p 00000000 00:00 0 \n"))
	if err != nil || len(m) != 2 || m[1].Start != 0x404000 || m[1].End != 0x406000 || m[1].Offset != 0x5000 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestParseFdinfo(t *testing.T) {
	for _, c := range []struct {
		in   string
		want FDInfo
	}{
		{"pos:\t12\nflags:\t02100002\nmnt_id:\t15\nino:\t7\n", FDInfo{Pos: 12, Flags: 0o2100002, inode: 7}},
		{"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t7\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n",
			FDInfo{Flags: 2, inode: 7, Count: 0x1f, Sema: true}},
		{"pos:\t0\nflags:\t02\ntfd:        5 events: 8000201d data:     7fd3c0ffeee0  pos:0 ino:b4 sdev:9\n",
			FDInfo{Flags: 2, Watch: []Watch{{FD: 5, Events: 0x8000201d, Data: 0x7fd3c0ffeee0}}}},
		{"pos:\t0\nflags:\t02\nclockid: 1\nticks: 2\nsettime flags: 01\nit_value: (3, 5)\nit_interval: (0, 7)\n",
			FDInfo{Flags: 2, Count: 2, Timer: &Timer{Clock: 1, Flags: 1, Value: 3e9 + 5, Interval: 7}}},
		{"pos:\t0\nflags:\t00\ninotify wd:1a ino:984090 sdev:fe00001 mask:80000100 ignored_mask:0 fhandle-bytes:2 fhandle-type:1 f_handle:4041\n" +
			"inotify wd:1 ino:2 sdev:15 mask:200 ignored_mask:0 \n",
			FDInfo{Files: []Inotify{{Number: 26, Mask: 0x80000100, File: Inode{0x984090, 0xfe00001, 1, "@A"}}, {Number: 1, Mask: 0x200, File: Inode{2, 0x15, 0, ""}}}}},
	} {
		got, err := ParseFDInfo([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v", c.in, got, err)
		}
	}
}

func TestOwnPages(t *testing.T) {
	var p []byte
	for _, e := range []uint64{pagePresent, pagePresent | 5, 0, pagePresent | pageFile, pageSwapped, pageSwapped} {
		p = binary.LittleEndian.AppendUint64(p, e)
	}
	if got, want := OwnPages(p), []Span{{0, 2}, {4, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOwnProc(t *testing.T) {
	pid := os.Getpid()
	if s, err := Parsed(pid, "status", ParseStatus); err != nil || s.Threads == 0 || s.Anon == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Parsed(pid, "stat", procfs.ParseStat); err != nil || MMOf(s.Layout).StartStack == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if m, err := Parsed(pid, "smaps", ParseSmaps); err != nil || len(m) < 5 || m[0].Flags == "" {
		t.Errorf("%+v, %v", m, err)
	}
}

// fuzzProc feeds a parser with this process's own file and variations of it.
func fuzzProc(f *testing.F, name string, parse func(p []byte)) {
	p, err := os.ReadFile("/proc/self/" + name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p[:min(len(p), 8<<10)])
	f.Fuzz(func(t *testing.T, p []byte) { parse(p) })
}

func FuzzMaps(f *testing.F) {
	p, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p[:min(len(p), 8<<10)])
	f.Fuzz(func(t *testing.T, p []byte) {
		all, _ := ParseMaps(p)
		for i := range all {
			if all[i].Start > all[i].End || i > 0 && all[i].Start < all[i-1].End {
				t.Fatalf("%+v", all)
			}
		}
	})
}

func FuzzSmaps(f *testing.F)  { fuzzProc(f, "smaps", func(p []byte) { ParseSmaps(p) }) }
func FuzzStatus(f *testing.F) { fuzzProc(f, "status", func(p []byte) { ParseStatus(p) }) }

func FuzzTimers(f *testing.F) {
	f.Add([]byte("ID: 3\nsignal: 60/00007fff86e452a8\nnotify: signal/tid.2634\nClockID: -6\n"))
	fuzzProc(f, "timers", func(p []byte) { ParseTimers(p) })
}

func FuzzFdinfo(f *testing.F) {
	f.Add([]byte("tfd:        5 events: 8000201d data:     7fd3c0ffeee0  pos:0 ino:b4 sdev:9\n"))
	f.Add([]byte("clockid: 1\nticks: 2\nsettime flags: 01\nit_value: (3, 5)\nit_interval: (0, 7)\n"))
	f.Add([]byte("flags:\t00\ninotify wd:1a ino:9 sdev:1 mask:8 ignored_mask:0 fhandle-bytes:2 fhandle-type:1 f_handle:4041\n"))
	fuzzProc(f, "fdinfo/0", func(p []byte) { ParseFDInfo(p) })
}

func FuzzPagemap(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x81})
	f.Fuzz(func(t *testing.T, p []byte) {
		at := 0
		for _, r := range OwnPages(p) {
			if r.First < at || r.N <= 0 || (r.First+r.N)*8 > len(p) {
				t.Fatalf("run %v after %d", r, at)
			}
			at = r.First + r.N
		}
	})
}
