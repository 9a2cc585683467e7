//go:build amd64

package capture

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// agentVar makes this test binary an agent that captures a program and waits to
// be killed; it names the program.
const agentVar = "GORUN_TEST_NATIVE_AGENT"

func agentMain(program string) {
	threads := trace.NewThreads(1)
	c := exec.Command(program, "16")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	err := errors.Join(err1, err2)
	if err == nil {
		threads.Do(func() { err = c.Start() })
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	var target *Target
	if err == nil {
		target, err = attachTo(New(threads), c.Process.Pid, 0, -1)
	}
	var held *captured
	if err == nil {
		held, err = target.capture(whole.CaptureOptions{NoFork: os.Getenv(agentVar+"_STAND") != ""})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Process.Pid, held.PID())
	select {}
}

// TestAgentKilled: copies, and ranks that stand still, die with their agent.
func TestAgentKilled(t *testing.T) {
	program := nativetest.Build(t, "victim", "default")
	for _, stand := range []string{"", "1"} {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), agentVar+"="+program, agentVar+"_STAND="+stand)
		c.Stdin, _ = os.Open(os.DevNull)
		out, err := c.StdoutPipe()
		if err := errors.Join(err, c.Start()); err != nil {
			t.Fatal(err)
		}
		var rank, held int
		line, _ := bufio.NewReader(out).ReadString('\n')
		if n, _ := fmt.Sscan(line, &rank, &held); n != 2 || (held == 0) != (stand != "") {
			t.Errorf("the agent says %q", line)
		}
		c.Process.Kill()
		c.Wait()
		for _, pid := range []int{rank, held} {
			if pid == 0 {
				continue
			}
			var b trace.Backoff
			for unix.Kill(pid, 0) == nil && !trace.IsZombie(pid) {
				if !b.Sleep(10 * time.Second) {
					t.Errorf("process %d is still there", pid)
					break
				}
			}
		}
	}
}

// TestNoCopy: where no copy can be made, the process stands still until its
// image is written, and that is said.
func TestNoCopy(t *testing.T) {
	tr := testAgent(t)
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		// Root may have as many processes as it likes.
		attr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	v := startVictim(t, tr, attr, "16", "spin")
	var before unix.Rlimit
	err := unix.Prlimit(v.PID, unix.RLIMIT_NPROC, nil, &before)
	if err == nil {
		one := unix.Rlimit{Cur: 1, Max: before.Max}
		err = unix.Prlimit(v.PID, unix.RLIMIT_NPROC, &one, nil)
	}
	if err != nil {
		t.Skip(err) // a root of few rights; TestUnprivileged does without
	}
	c, err := v.target.capture(whole.CaptureOptions{})
	// As soon as it runs again it may want a thread.
	if err := unix.Prlimit(v.PID, unix.RLIMIT_NPROC, &before, nil); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.PID() != 0 || !strings.Contains(c.Note(), "stood still") {
		t.Errorf("copy %d, note %q", c.PID(), c.Note())
	}
	v.write(c)
	v.Works()
}

// TestUnprivileged runs the tests of capturing once more as an ordinary user.
func TestUnprivileged(t *testing.T) {
	if testing.Short() {
		t.Skip("all of it once more as another user; skipped with -short")
	}
	out := nativetest.Unprivileged(t, "^Test(Supported|Capture|Memory|Refused|Files|CopyHoldsNothing|Killed|AgentKilled|NoCopy|EndingThreads|Headless)$", "victim")
	if n := nativetest.Passed(out); n != 11 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
