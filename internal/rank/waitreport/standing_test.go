package waitreport

import (
	"strings"
	"testing"
)

const (
	sleeper = "goroutine 1 [sleep, 2 minutes]:\ntime.Sleep(0x1)\n\t/go/src/runtime/time.go:338 +0x1\nmain.main.func1(0x1)\n\t/home/me/main.go:15 +0x1d\ngithub.com/gorun-mpi/gorun/mpi.Run(0x1)\n\t/lib/mpi/env.go:1 +0x1\n"
	worker  = "goroutine 7 [runnable]:\nmain.work()\n\t/home/me/work.go:3 +0x1\ncreated by main.main in goroutine 1\n\t/home/me/main.go:9 +0x1\n"
	own     = "goroutine 5 [running]:\ngithub.com/gorun-mpi/gorun/internal/rank/job.(*driver).run()\n\t/lib/d.go:3 +0x1\ncreated by github.com/gorun-mpi/gorun/internal/rank/job.New in goroutine 1\n\t/lib/d.go:9 +0x1\n"
)

func TestStanding(t *testing.T) {
	for name, c := range map[string]struct {
		dump []string
		want string
	}{
		"sleeps":                          {[]string{sleeper, own}, "in time.Sleep at /home/me/main.go:15, outside the library"},
		"another of its goroutines works": {[]string{sleeper, worker, own}, Computing},
		"another sleeps, too":             {[]string{strings.Replace(worker, "runnable", "sleep", 1), sleeper}, "in time.Sleep at /home/me/main.go:15, outside the library"},
		"computes":                        {[]string{strings.Replace(sleeper, "sleep, 2 minutes", "runnable", 1)}, Computing},
		"reads":                           {[]string{strings.Replace(sleeper, "sleep, 2 minutes", "IO wait", 1)}, "waiting for input or output at /home/me/main.go:15, outside the library"},
		"locks":                           {[]string{strings.Replace(sleeper, "sleep, 2 minutes", "sync.Mutex.Lock, 1 minutes, locked to thread", 1)}, "waiting (sync.Mutex.Lock) at /home/me/main.go:15, outside the library"},
		"nothing of the program":          {[]string{own}, Computing},
	} {
		if got := Standing([]byte(strings.Join(c.dump, "\n"))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What Go itself writes is understood.
func TestStandingOfThisProcess(t *testing.T) {
	if got := waitsFor(strings.SplitN(string(Dump()), "\n", 2)[0]); got == "" {
		t.Errorf("the test's parent waits for its end, and is told to run:\n%s", Dump())
	}
}
