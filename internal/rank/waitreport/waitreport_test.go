package waitreport

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const dump = `goroutine 1 [syscall, 3 minutes]:
syscall.Syscall6(0xca, 0x7eff9a205040, 0x0, 0x1, 0x2495076028, 0x0, 0x0)
	/usr/local/go/src/syscall/syscall_linux.go:96 +0x39
github.com/gorun-mpi/gorun/rpi/shm.sleep(...)
	/m/gorun/rpi/shm/sys.go:89
github.com/gorun-mpi/gorun/internal/rank/engine.(*Engine).finish(0x249506e608, 0x2495072008, 0x921c6e158db83b2d?)
	/m/gorun/internal/rank/engine/wait.go:283 +0x34
github.com/gorun-mpi/gorun/internal/rank/engine.(*Engine).Recv(0x249506e608, 0x1)
	/m/gorun/internal/rank/engine/recv.go:83 +0x34
github.com/gorun-mpi/gorun/mpi.(*Comm).recv(...)
	/m/gorun/mpi/send.go:83
github.com/gorun-mpi/gorun/mpi.RecvValue[...](0x0, 0x1)
	/m/gorun/mpi/value.go:12 +0x50
main.wait(0x0)
	/home/me/my prog/main.go:21 +0x20
main.main.func1(0x0)
	/home/me/my prog/main.go:16 +0x20
github.com/gorun-mpi/gorun/mpi.Run(0x4be5a8)
	/m/gorun/mpi/env.go:158 +0x5f
main.main()
	/home/me/my prog/main.go:11 +0x20

goroutine 7 [sleep]:
time.Sleep(0x34630b8a000)
	/usr/local/go/src/runtime/time.go:368 +0x125
main.main.func1(0x0)
	/home/me/my prog/main.go:14 +0x20
github.com/gorun-mpi/gorun/mpi.Run(0x4be5a8)
	/m/gorun/mpi/env.go:158 +0x5f
main.main()
	/home/me/my prog/main.go:11 +0x20

goroutine 8 [chan receive]:
github.com/gorun-mpi/gorun/internal/rank/job.(*Job).Finalize(0x0)
	/m/gorun/internal/job/job.go:130 +0x5f
github.com/gorun-mpi/gorun/mpi.Finalize()
	/m/gorun/mpi/env.go:120 +0x5f
github.com/gorun-mpi/gorun/mpi.Run(0x4be5a8)
	/m/gorun/mpi/env.go:158 +0x5f
main.main()
	/home/me/my prog/main.go:11 +0x20

goroutine 21 [select]:
github.com/gorun-mpi/gorun/internal/rank/engine.(*Engine).Send(0x249506e608)
	/m/gorun/internal/rank/engine/send.go:96 +0x34
github.com/gorun-mpi/gorun/mpi.(*watch).say(0x0)
	/m/gorun/mpi/watch.go:120 +0x5f
created by github.com/gorun-mpi/gorun/mpi.(*watch).start in goroutine 1
	/m/gorun/mpi/watch.go:100 +0x5f

goroutine 33 [select]:
github.com/gorun-mpi/gorun/mpi.(*Comm).Split(0x0)
	/m/gorun/mpi/comm.go:120 +0x5f
hello/sub.step.gowrap1()
	/home/me/sub/step.go:9 +0x5f
created by hello/sub.step in goroutine 7
	/home/me/sub/step.go:8 +0x5f

goroutine 34 [syscall]:
syscall.Syscall6(0xca, 0x7eff9a205040, 0x0, 0x1, 0x2495076028, 0x0, 0x0)
	/usr/local/go/src/syscall/syscall_linux.go:96 +0x39
github.com/gorun-mpi/gorun/internal/offload.(*Shared).WaitDone(0x0, 0x1)
	/m/gorun/internal/offload/wait.go:72 +0x5f
github.com/gorun-mpi/gorun/device/opencl.(*device).Wait(0x0)
	/m/gorun/device/opencl/commands.go:81 +0x5f
github.com/gorun-mpi/gorun/device.(*storage).fetch(0x0)
	/m/gorun/device/storage.go:90 +0x5f
github.com/gorun-mpi/gorun/device.(*Array[...]).Host(0x0)
	/m/gorun/device/array.go:80 +0x5f
main.main.func1(0x0)
	/home/me/my prog/main.go:15 +0x20
`

func TestCalls(t *testing.T) {
	want := []Call{
		{Goroutine: 1, Name: "mpi.RecvValue", Site: "/home/me/my prog/main.go:21", Method: "Recv"},
		{Goroutine: 8, Name: "mpi.Finalize", Site: "/home/me/my prog/main.go:11"},
		{Goroutine: 21, Method: "Send"},
		{Goroutine: 33, Name: "mpi.Comm.Split", Site: "/home/me/sub/step.go:9"},
		{Goroutine: 34, Name: "device.Array.Host", Site: "/home/me/my prog/main.go:15"},
	}
	if got := Calls([]byte(dump)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got, want := Parents([]byte(dump)), map[int]int{21: 1, 33: 7}; !maps.Equal(got, want) {
		t.Errorf("started by %v, want %v", got, want)
	}
}

// Whatever is in a dump, what is said of it is found there.
func FuzzCalls(f *testing.F) {
	f.Add([]byte(dump))
	f.Add([]byte(dump[:300]))
	f.Add([]byte("goroutine 1 [x]:\nmain.f(\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, c := range Calls(p) {
			if text := string(p); !strings.Contains(text, c.Site) || !strings.Contains(text, module) {
				t.Errorf("%+v", c)
			}
		}
	})
}

// The goroutines of this process are in its dump, and the one that asks is not.
func TestDump(t *testing.T) {
	dump := make(chan string)
	go func() { dump <- string(Dump()) }()
	text, asks := <-dump, "waitreport.Dump("
	if !strings.HasPrefix(text, "goroutine ") || !strings.Contains(text, "TestDump(") || strings.Contains(text, asks) || Self() == 0 {
		t.Errorf("goroutine %d, %s", Self(), text)
	}
}

func TestJoin(t *testing.T) {
	recv, send, probe := Waiting("Recv", "Recv(a)", time.Second), Waiting("Send", "Send(b)", 0), Waiting("Probe", "Probe(c)", 0)
	at := func(site, method string) Call { return Call{Name: "mpi.X", Site: site, Method: method} }
	for _, c := range []struct {
		what  string
		calls []Call
		waits []Wait
		want  []string
	}{
		{"one", []Call{at("f:1", "Recv")}, []Wait{recv}, []string{"mpi.X at f:1: Recv(a) for 1s"}},
		{"of two kinds", []Call{at("f:1", "Mprobe"), at("f:2", "Send")}, []Wait{send, probe}, []string{"mpi.X at f:1: Probe(c)", "mpi.X at f:2: Send(b)"}},
		{"what is left is the other's", []Call{at("f:1", "Exchange"), at("f:2", "Recv")}, []Wait{recv, send}, []string{"mpi.X at f:1: Send(b)", "mpi.X at f:2: Recv(a) for 1s"}},
		{"two alike", []Call{at("f:1", "Recv"), at("f:2", "Recv")}, []Wait{recv, Waiting("Recv", "Recv(d)", 0)},
			[]string{"mpi.X at f:1", "mpi.X at f:2", "Recv(a) for 1s", "Recv(d)"}},
		{"the library's own", []Call{at("f:1", "Recv"), {Method: "Send"}}, []Wait{recv, send}, []string{"mpi.X at f:1: Recv(a) for 1s"}},
		{"between two waits", []Call{at("f:1", "")}, nil, []string{"mpi.X at f:1"}},
	} {
		var got []string
		for _, w := range Join(c.calls, c.waits) {
			got = append(got, w.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}

// Ranks that do the same share a line.
func TestReport(t *testing.T) {
	barrier := func(for_ time.Duration) *Info {
		return &Info{Waits: []Wait{{Call: "mpi.Barrier", Site: "f:9", What: "Recv(source 0)", For: for_}}}
	}
	got := Report([]int{0, 1, 2, 3, 4}, []*Info{
		{Waits: []Wait{{Call: "mpi.Recv", Site: "f:3", What: "Recv(source 4)", For: 61 * time.Second}}},
		barrier(1500 * time.Millisecond), nil, barrier(time.Second), {State: "in Finalize"},
	})
	want := []string{
		"rank 0: mpi.Recv at f:3: Recv(source 4) for 1m1s", "ranks 1, 3: mpi.Barrier at f:9 for 1.5s",
		"rank 2: no answer", "rank 4: in Finalize",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
