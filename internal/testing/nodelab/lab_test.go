package nodelab

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is for what takes a moment, on a machine that has other things to do.
const patience = time.Minute

// TestLab does to nodes what can be done to them, one after the other.
func TestLab(t *testing.T) {
	lab := Up(t, 3, Networks(2))
	for _, part := range []struct {
		name string
		run  func(*testing.T, *Lab)
	}{{"ssh", ssh}, {"folders", folders}, {"network", network}, {"freeze", freeze}, {"command ends", commandEnds}, {"power", power}} {
		t.Run(part.name, func(t *testing.T) {
			l := *lab
			l.t = t
			part.run(t, &l)
			l.Idle(patience, l.Nodes()...)
		})
	}
}

// ssh: nodes reach one another by all their names, as both users.
func ssh(t *testing.T, lab *Lab) {
	for _, user := range []string{"root", "worker"} {
		want := "n2\n" + user + "\n" + lab.Address("n1", 0) + " "
		if got := lab.ExecAs(user, "n1", "ssh", "n2", "hostname; id -un; echo $SSH_CONNECTION"); !strings.HasPrefix(got, want) {
			t.Errorf("as %s: %q", user, got)
		}
	}
	for _, name := range []string{"n2-6", "n2-1", lab.Address("n2", 1)} {
		if got := lab.Exec("n1", "ssh", name, "hostname"); got != "n2\n" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// folders: which are common to all nodes, and which are not. Each has booted by itself.
func folders(t *testing.T, lab *Lab) {
	const boot = "/proc/sys/kernel/random/boot_id"
	if one, two := lab.Exec("n1", "cat", boot), lab.Exec("n2", "cat", boot); one == two {
		t.Errorf("both have the boot id %s", one)
	}
	lab.Exec("n1", "sh", "-c", "echo shared >"+lab.Shared()+"/f; echo own >"+lab.Local()+"/f; echo lost >/tmp/f")
	if got := lab.Exec("n2", "sh", "-c", "cat "+lab.Shared()+"/f; cat "+lab.Local()+"/f /tmp/f 2>/dev/null || :"); got != "shared\n" {
		t.Errorf("n2 has %q", got)
	}
	if b, err := os.ReadFile(lab.LocalOf("n1") + "/f"); string(b) != "own\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// reaches reports whether the sshd of one node answers another in time.
func (l *Lab) reaches(from, to, seconds string) bool {
	const ask = `exec 3<>"/dev/tcp/$0/22" && read -r line <&3 && [[ $line == SSH-* ]]`
	return l.Command(from, "timeout", seconds, "bash", "-c", ask, to).Run() == nil
}

// sees fails the test unless a node reaches another, or does not.
func (l *Lab) sees(what, from, to string, want bool) {
	l.t.Helper()
	seconds := "60"
	if !want {
		seconds = "0.5"
	}
	if l.reaches(from, to, seconds) != want {
		l.t.Errorf("%s: %s reaches %s: %t", what, from, to, !want)
	}
}

// network cuts nodes off in all ways, and heals.
func network(t *testing.T, lab *Lab) {
	see := func(what string, want ...bool) {
		t.Helper()
		for i, pair := range [][2]string{{"n1", "n2"}, {"n2", "n3"}, {"n1", "n3"}} {
			lab.sees(what, pair[0], pair[1], want[i])
		}
	}
	lab.Partition([]string{"n1"}, []string{"n2"})
	see("cut in two", false, true, true)
	lab.Heal()
	lab.PartitionOneWay([]string{"n2"}, []string{"n1"})
	see("cut one way", false, true, true)
	lab.Heal()
	lab.Partition([]string{"n3"}, nil)
	see("n3 cut from all", true, false, false)
	lab.Heal()
	lab.Unplug("n3")
	see("n3 unplugged", true, false, false)
	lab.Plug("n3")
	lab.Loss("n2", 100)
	see("n2 loses all", false, false, true)
	lab.Heal()
	lab.Loss("n2", 10)
	lab.Rate("n2", "100mbit")
	lab.Delay("n2", 20*time.Millisecond)
	see("slow", true, true, true)
	lab.Delay("n2", 0)
	lab.Rate("n2", "off")
	lab.Heal()
	see("quick", true, true, true)
}

// freeze: the processes of a node stand still, and go on.
func freeze(t *testing.T, lab *Lab) {
	lab.Freeze("n2")
	lab.sees("frozen", "n1", "n2", false)
	lab.Thaw("n2")
	lab.sees("thawed", "n1", "n2", true)
	lab.Pause("n2")
	lab.sees("paused", "n1", "n2", false)
	lab.Resume("n2")
	lab.sees("resumed", "n1", "n2", true)
}

// commandEnds: what runs on a node ends with the command that has started it.
func commandEnds(t *testing.T, lab *Lab) {
	for _, user := range []string{"root", "worker"} {
		cmd := lab.CommandAs(user, "n1", "sh", "-c", "echo here; exec sleep 1000")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if len(lab.Processes("n1")) == 0 {
			t.Error("it is not listed")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		lab.Idle(patience, "n1")
	}
}

// power is cut, and comes back.
func power(t *testing.T, lab *Lab) {
	work := lab.Command("n2", "sleep", "1000")
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); len(lab.Processes("n2")) == 0; {
		if time.Since(begin) > patience {
			t.Fatal("nothing runs on n2")
		}
	}
	lab.Exec("n2", "touch", "/tmp/gone", lab.Local()+"/kept")
	lab.Kill("n2")
	if err := work.Wait(); err == nil {
		t.Error("a process has outlived its node")
	}
	if lab.sees("off", "n1", "n2", false); lab.Command("n2", "true").Run() == nil {
		t.Error("a node without power answers")
	}
	lab.Start("n2")
	lab.sees("on", "n1", "n2", true)
	if got := lab.Exec("n2", "find", "/tmp", lab.Local(), "-type", "f"); got != lab.Local()+"/kept\n" {
		t.Errorf("left: %q", got)
	}
}

// TestSeveral: labs do not meet.
func TestSeveral(t *testing.T) {
	one, two := Up(t, 2), Up(t, 1)
	one.Kill("n1")
	if got := two.Exec("n1", "hostname"); got != "n1\n" {
		t.Error(got)
	}
}

// brokenTest makes the test binary one whose test ends in a bad way.
const brokenTest = "NODELAB_TEST_BROKEN"

// TestBroken is no test of its own: TestDown runs it.
func TestBroken(t *testing.T) {
	how := os.Getenv(brokenTest)
	if how == "" {
		t.Skip("a part of TestDown")
	}
	lab := Up(t, 1)
	if err := lab.Command("n1", "sh", "-c", "setsid sleep 1000 &").Run(); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("lab " + lab.root + "\n")
	switch how {
	case "panic":
		go panic("elsewhere") // which leaves the test no time to clean up
	}
	select {}
}

// TestDown: a lab goes down when a goroutine of its test panics, and when it is killed.
func TestDown(t *testing.T) {
	for _, how := range []string{"panic", "killed"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBroken$")
		cmd.Env = append(os.Environ(), brokenTest+"="+how)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		root, skipped := "", false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if s, ok := strings.CutPrefix(lines.Text(), "lab "); ok {
				root = s
				if how == "killed" {
					_ = cmd.Process.Kill()
				}
			}
			skipped = skipped || lines.Text() == "PASS"
		}
		if err := cmd.Wait(); err == nil && skipped {
			Up(t, 1) // skips, with the reason
		} else if root == "" {
			t.Fatalf("%s: no lab", how)
		}
		for begin := time.Now(); ; {
			if _, err := os.Stat(root); os.IsNotExist(err) {
				break
			}
			if time.Since(begin) > patience {
				t.Fatalf("%s: %s is still there", how, root)
			}
		}
	}
}
