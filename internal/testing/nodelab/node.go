package nodelab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Command returns a command that is to run on a node, as root. The node's process gets no
// signals: it is killed when this one ends.
func (l *Lab) Command(node string, args ...string) *exec.Cmd {
	return l.CommandAs("root", node, args...)
}

// CommandAs is Command for another user: root or worker.
func (l *Lab) CommandAs(user, node string, args ...string) *exec.Cmd {
	cmd := exec.Command("bash", append([]string{l.script("node"), "exec", "-u", user, node}, args...)...)
	cmd.Env = l.env
	return cmd
}

// Exec runs a command on a node, as root, and returns what it says on its standard output.
func (l *Lab) Exec(node string, args ...string) string {
	l.t.Helper()
	return l.ExecAs("root", node, args...)
}

// ExecAs is Exec for another user: root or worker.
func (l *Lab) ExecAs(user, node string, args ...string) string {
	l.t.Helper()
	var complaints bytes.Buffer
	cmd := l.CommandAs(user, node, args...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("%s: %s: %v\n%s%s", node, strings.Join(args, " "), err, out, complaints.Bytes())
	}
	return string(out)
}

// Processes are those of a node that are not the lab's own, one a line: number, state,
// parent's number, command line. The lab's own are the first, its sshd and its sleep;
// those of a login that is going on are not.
func (l *Lab) Processes(node string) []string {
	l.t.Helper()
	const list = `for p in /proc/[0-9]*; do
	pid=${p#/proc/}
	[ "$pid" = $$ ] && continue
	stat=$(cat "$p/stat" 2>/dev/null) || continue
	set -- ${stat##*) }
	cmd=$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) || continue
	[ "$pid" = 1 ] || [ "$2" = $$ ] || [ "$2" = 1 -a "$cmd" = "sleep 1000 " ] || [ "$2" = 1 -a "${cmd#sshd: /usr/sbin/sshd -D}" != "$cmd" ] ||
		echo "$pid $1 $2 $cmd"
done`
	return strings.FieldsFunc(l.Exec(node, "sh", "-c", list), func(r rune) bool { return r == '\n' })
}

// Idle waits until nothing but the lab itself is left on the nodes, and fails the test if
// that takes longer than patience.
func (l *Lab) Idle(patience time.Duration, nodes ...string) {
	l.t.Helper()
	for _, node := range nodes {
		var left []string
		for begin := time.Now(); ; {
			if left = l.Processes(node); len(left) == 0 {
				break
			}
			if time.Since(begin) > patience {
				l.t.Fatalf("left on %s:\n%s", node, strings.Join(left, "\n"))
			}
		}
	}
}

// Kill cuts the power of nodes at one instant: the links go first, so that no sign of them leaves, then
// every process.
func (l *Lab) Kill(nodes ...string) { l.t.Helper(); l.must(append([]string{"kill"}, nodes...)...) }

// Start switches a node on again, with nothing left but its Local.
func (l *Lab) Start(node string) { l.t.Helper(); l.must("start", node) }

// Partition drops what goes between two groups of nodes. With an empty second one these
// are all others.
func (l *Lab) Partition(left, right []string) {
	l.t.Helper()
	l.must("partition", strings.Join(left, ","), strings.Join(right, ","))
}

// PartitionOneWay drops what the first group sends to the second, and nothing else.
func (l *Lab) PartitionOneWay(from, to []string) {
	l.t.Helper()
	l.must("partition", "-o", strings.Join(from, ","), strings.Join(to, ","))
}

// Heal takes back all partitions and losses.
func (l *Lab) Heal() { l.t.Helper(); l.must("heal") }

// Unplug takes a node's links down.
func (l *Lab) Unplug(node string) { l.t.Helper(); l.must("unplug", node) }

// Plug takes them up.
func (l *Lab) Plug(node string) { l.t.Helper(); l.must("plug", node) }

// Freeze stops all processes of a node. Its kernel still acknowledges what comes. The test
// is skipped where the machine has no cgroups.
func (l *Lab) Freeze(node string) { l.t.Helper(); l.freezing("freeze", node) }

// Thaw lets them go on.
func (l *Lab) Thaw(node string) { l.t.Helper(); l.freezing("thaw", node) }

// Still does what Freeze and Thaw do, at once and without waiting: for a node that is to stand at a step of what runs
// there. Nothing happens where the machine has no cgroups.
func (l *Lab) Still(node string, still bool) {
	l.t.Helper()
	root, err := os.ReadFile(filepath.Join(l.dir(), "cgroup"))
	if err != nil {
		l.t.Fatal(err)
	}
	dir := strings.TrimSpace(string(root))
	if dir == "" {
		return
	}
	freeze := []byte("0")
	if still {
		freeze = []byte("1")
	}
	// A node without power has no cgroup.
	if err := os.WriteFile(filepath.Join(dir, node, "cgroup.freeze"), freeze, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
}

// Pause stops a node as a virtual machine is stopped: frozen and unplugged.
func (l *Lab) Pause(node string) { l.t.Helper(); l.freezing("pause", node) }

// Resume lets it go on.
func (l *Lab) Resume(node string) { l.t.Helper(); l.freezing("resume", node) }

func (l *Lab) freezing(args ...string) {
	l.t.Helper()
	if err := l.Do(args...); err != nil {
		l.refuse(err)
	}
}

// Delay delays what a node sends and what it gets by d, in whole milliseconds; 0: by
// nothing.
func (l *Lab) Delay(node string, d time.Duration) {
	l.t.Helper()
	ms := "off"
	if d != 0 {
		ms = strconv.FormatInt(max(d.Milliseconds(), 1), 10)
	}
	l.must("delay", node, ms)
}

// Loss drops so many per cent of what a node sends, until Heal.
func (l *Lab) Loss(node string, percent int) { l.t.Helper(); l.must("loss", node, fmt.Sprint(percent)) }

// Rate limits what a node sends and gets, both ways: "100mbit", or "off".
func (l *Lab) Rate(node, rate string) { l.t.Helper(); l.must("rate", node, rate) }

// Slurm starts a Slurm on all nodes: slurmctld on n1, a slurmd on each. The test is
// skipped, or fails in continuous integration, where it is not installed. Settings are
// variables of slurm-lab.sh: "SLURMD_TIMEOUT=10".
func (l *Lab) Slurm(settings ...string) {
	l.t.Helper()
	l.env = append(l.env, settings...)
	if err := l.call("slurm", []string{"up"}); err != nil {
		l.refuse(err)
	}
}

// SlurmRepair switches a node on again, if it is off, and has Slurm use it.
func (l *Lab) SlurmRepair(node string) {
	l.t.Helper()
	if err := l.call("slurm", []string{"repair", node}); err != nil {
		l.t.Fatal(err)
	}
}
