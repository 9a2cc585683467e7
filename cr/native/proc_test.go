package native

import (
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMaps(t *testing.T) {
	m, err := parseMaps([]byte("00400000-00401000 r-xp 00001000 fe:00 42     /a b\\012c (deleted)\n" +
		"7ffde91fa000-7ffde921b000 rw-s 00000000 00:00 0                          [stack]\n"))
	want := []mapping{
		{start: 0x400000, end: 0x401000, prot: unix.PROT_READ | unix.PROT_EXEC, offset: 0x1000,
			dev: unix.Mkdev(0xfe, 0), inode: 42, path: "/a b\nc", deleted: true},
		{start: 0x7ffde91fa000, end: 0x7ffde921b000, prot: unix.PROT_READ | unix.PROT_WRITE, shared: true, path: "[stack]"},
	}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestMapsOfRunning: what is told twice because it changed is taken once.
func TestMapsOfRunning(t *testing.T) {
	m, err := parseMaps([]byte("00400000-00404000 r-xp 00001000 fe:00 42 /a\n" +
		"00402000-00406000 r-xp 00003000 fe:00 42 /a\n00405000-00406000 rw-p 00000000 00:00 0 \n"))
	if err != nil || len(m) != 2 || m[1].start != 0x404000 || m[1].end != 0x406000 || m[1].offset != 0x5000 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestParseFdinfo(t *testing.T) {
	for _, c := range []struct {
		in   string
		want fdinfo
	}{
		{"pos:\t12\nflags:\t02100002\nmnt_id:\t15\nino:\t7\n", fdinfo{pos: 12, flags: 0o2100002, inode: 7}},
		{"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t7\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n",
			fdinfo{flags: 2, inode: 7, count: 0x1f, sema: true}},
		{"pos:\t0\nflags:\t02\ntfd:        5 events: 8000201d data:     7fd3c0ffeee0  pos:0 ino:b4 sdev:9\n",
			fdinfo{flags: 2, watch: []Watch{{5, 0x8000201d, 0x7fd3c0ffeee0}}}},
		{"pos:\t0\nflags:\t02\nclockid: 1\nticks: 2\nsettime flags: 01\nit_value: (3, 5)\nit_interval: (0, 7)\n",
			fdinfo{flags: 2, count: 2, timer: &Timer{Clock: 1, Flags: 1, Value: 3e9 + 5, Interval: 7}}},
	} {
		got, err := parseFdinfo([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v", c.in, got, err)
		}
	}
}

func TestOwnPages(t *testing.T) {
	var p []byte
	for _, e := range []uint64{pagePresent, pagePresent | 5, 0, pagePresent | pageFile, pageSwapped, pageSwapped} {
		p = le.AppendUint64(p, e)
	}
	if got, want := ownPages(p), []span{{0, 2}, {4, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOwnProc(t *testing.T) {
	pid := os.Getpid()
	if s, err := parsedProc(pid, "status", parseStatus); err != nil || s.threads == 0 || s.anon == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parsedProc(pid, "stat", parseStat); err != nil || s.ppid != os.Getppid() || s.mm.StartStack == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if m, err := parsedProc(pid, "smaps", parseSmaps); err != nil || len(m) < 5 || m[0].flags == "" {
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
		all, _ := parseMaps(p)
		for i := range all {
			if all[i].start > all[i].end || i > 0 && all[i].start < all[i-1].end {
				t.Fatalf("%+v", all)
			}
		}
	})
}

func FuzzSmaps(f *testing.F)  { fuzzProc(f, "smaps", func(p []byte) { parseSmaps(p) }) }
func FuzzStat(f *testing.F)   { fuzzProc(f, "stat", func(p []byte) { parseStat(p) }) }
func FuzzStatus(f *testing.F) { fuzzProc(f, "status", func(p []byte) { parseStatus(p) }) }

func FuzzFdinfo(f *testing.F) {
	f.Add([]byte("tfd:        5 events: 8000201d data:     7fd3c0ffeee0  pos:0 ino:b4 sdev:9\n"))
	f.Add([]byte("clockid: 1\nticks: 2\nsettime flags: 01\nit_value: (3, 5)\nit_interval: (0, 7)\n"))
	fuzzProc(f, "fdinfo/0", func(p []byte) { parseFdinfo(p) })
}

func FuzzPagemap(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x81})
	f.Fuzz(func(t *testing.T, p []byte) {
		at := 0
		for _, r := range ownPages(p) {
			if r.first < at || r.n <= 0 || (r.first+r.n)*8 > len(p) {
				t.Fatalf("run %v after %d", r, at)
			}
			at = r.first + r.n
		}
	})
}
