package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

var digestLine = regexp.MustCompile(`digest [0-9a-f]+`)

// killsOfAJob is how many kills a job has to live through.
const killsOfAJob = 4

// TestKilled kills offload processes, ranks and agents at any instant: between kernels, in checkpoints, swaps, moves, and restarts. The
// jobs end with the bits of an undisturbed one, and nothing is left. GORUN_DEVICE_KILLS says how many kills there are.
func TestKilled(t *testing.T) {
	kills := testenv.Number(t, "GORUN_DEVICE_KILLS", 0)
	if kills == 0 {
		t.Skip("a kill takes seconds of processor time: set GORUN_DEVICE_KILLS to their number")
	}
	j := newJobs(t)
	j.env = append(j.env, "TMPDIR="+filepath.Join(j.dir, "tmp"))
	fail(t, os.Mkdir(j.dir+"/tmp", 0o700))
	program := []string{"./turns", "-steps", "150"}
	out, err := j.run(append([]string{"-np", "2"}, program...)...)
	want := digestLine.FindString(out)
	if err != nil || want == "" {
		t.Fatalf("undisturbed: %v: %s", err, out)
	}
	seed := rand.Uint64()
	if s := os.Getenv("GORUN_DEVICE_KILLS_SEED"); s != "" {
		seed, err = strconv.ParseUint(s, 10, 64)
		fail(t, err)
	}
	for had := 0; had < kills && !testenv.Late(t); had += killsOfAJob {
		name := fmt.Sprintf("GORUN_DEVICE_KILLS_SEED=%d", seed)
		k := &killing{jobs: j, r: rand.New(rand.NewPCG(seed, 1)), seen: map[int]bool{}}
		out, err := k.job(append(program, "-pace", "10ms"))
		if got := digestLine.FindString(out); err != nil || got != want {
			t.Fatalf("%s: after %v: %v: %q, want %q:\n%s", name, k.log, err, got, want, out)
		}
		if left := k.left(); left != "" {
			t.Fatalf("%s: after %v: left: %s", name, k.log, left)
		}
		t.Log(name, k.log)
		seed++
	}
}

// killing is a job whose processes are killed.
type killing struct {
	*jobs
	r    *rand.Rand
	id   string
	log  []string
	seen map[int]bool // all processes that status has told
}

// job runs a job to its end.
func (k *killing) job(program []string) (string, error) {
	flags := []string{"-restarts", "40", "-ckpt-every", "200ms", "-agents", strconv.Itoa(1 + k.r.IntN(2))}
	if k.r.IntN(2) == 0 {
		flags = append(flags, "-devices", "share")
		k.log = append(k.log, "(shared)")
	}
	id, wait := k.start(append(flags, program...)...)
	k.id = id
	over := make(chan struct{})
	var out string
	var err error
	go func() {
		defer close(over)
		out, err = wait()
	}()
	for had := len(k.log); len(k.log) < had+killsOfAJob && k.kill(over); {
	}
	for {
		select {
		case <-over:
			return out, err
		case <-time.After(100 * time.Millisecond):
			k.run("swap-in", id) // what a move or a swap has left outside
		}
	}
}

// kill has something begin, and then kills somebody. It reports false if the job is over.
func (k *killing) kill(over chan struct{}) bool {
	did := make(chan struct{})
	what := [][]string{{"checkpoint", k.id}, {"swap-out", k.id}, {"swap-in", k.id}, {"migrate", k.id, "-device", "0", "-to", "1"}, {"migrate", k.id, "-device", "1", "-to", "0"}, {"migrate", k.id, "-device", "0", "-to", "7"}, {"status", k.id}}[k.r.IntN(7)]
	go func() {
		defer close(did)
		k.run(what...)
	}()
	who, pid := k.victim()
	instant := time.Duration(k.r.IntN(250)) * time.Millisecond
	select {
	case <-over:
		<-did
		return false
	case <-time.After(instant): // any instant is as good: nothing is waited for
	}
	if pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
		k.log = append(k.log, fmt.Sprintf("%s %v after %s", who, instant, what[0]))
	}
	<-did
	return true
}

var ofStatus = map[string]*regexp.Regexp{
	"offload process": regexp.MustCompile(`device \w+:\d+: process (\d+)`),
	"rank":            regexp.MustCompile(`(?m)^\s+\d+\s+pid (\d+) on`),
}

// victim chooses a process of the job, 0 if there is none now.
func (k *killing) victim() (who string, pid int) {
	out, _ := k.run("status", k.id)
	pids := map[string][]int{}
	for name, re := range ofStatus {
		for _, m := range re.FindAllStringSubmatch(out, -1) {
			if pid, _ := strconv.Atoi(m[1]); pid > 1 {
				pids[name] = append(pids[name], pid)
				k.seen[pid] = true
			}
		}
	}
	for _, rank := range pids["rank"] {
		if agent := parent(rank); agent > 1 {
			pids["agent"] = append(pids["agent"], agent)
			k.seen[agent] = true
		}
	}
	who = []string{"offload process", "offload process", "rank", "agent"}[k.r.IntN(4)]
	if all := pids[who]; len(all) > 0 {
		pid = all[k.r.IntN(len(all))]
	}
	return who, pid
}

// parent is the parent of a rank if that is an agent, else 0: the head is that of ranks whose agent has just died.
func parent(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	words := strings.Fields(rest)
	if len(words) < 2 {
		return 0
	}
	up, _ := strconv.Atoi(words[1])
	if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", up)); !strings.Contains(string(line), "\x00__agent\x00") {
		return 0
	}
	return up
}

// left names what the job has left.
func (k *killing) left() string {
	var names []string
	for pid := range k.seen {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if strings.HasPrefix(exe, k.dir+"/") {
			names = append(names, fmt.Sprintf("process %d, %s", pid, filepath.Base(exe)))
		}
	}
	files, _ := filepath.Glob(k.dir + "/tmp/.gorun-device*")
	more, _ := filepath.Glob(k.dir + "/run/gorun-devices")
	return strings.Join(append(append(names, files...), more...), ", ")
}
