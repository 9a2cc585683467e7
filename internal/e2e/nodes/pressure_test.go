package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// fullLevel: the disk of one level is full. The job goes on, its other level gets snapshots, and when there is room this one does again.
func (c *cluster) fullLevel() {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), "full")
	far, stores := filepath.Join(dir, "far"), c.fresh("stores")
	want := c.alone("2", "100")
	c.Exec("n1", "mkdir", "-p", far)
	c.Exec("n1", "mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", far)
	defer c.Exec("n1", "umount", far)
	if err := os.WriteFile(stores, fmt.Appendf(nil, "[far]\nkind = 'dir'\nfolder = %q\nkeep = 1\n", far), 0o644); err != nil {
		c.t.Fatal(err)
	}
	j := c.start("-v", "-np", "2", "-cr=native", "-ckpt-dir", filepath.Join(dir, "snapshots"), "-ckpt-every", "dir=100ms,far=200ms", "-stores", stores, "-keep", "2",
		c.file("march"), "-end", end)
	j.await("less protection than asked for: level far")
	said, _ := j.said.now()
	if !strings.Contains(said, "no space left on device") {
		c.t.Errorf("the reason is not told: %s", said)
	}
	j.awaitTimes("checkpoint: committed", strings.Count(said, "checkpoint: committed")+2)
	c.Exec("n1", "mount", "-o", "remount,size=64m", far)
	j.await("level far gets snapshots again")
	c.ends(j, end, want)
}

// ends ends a march, whose result must be right.
func (c *cluster) ends(j *job, end, want string) {
	c.t.Helper()
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
}

// memoryLimit: the control group of a node has too little memory for the copies that it is to hold. They are refused by name before anything of them is
// written, so nobody is killed; the job goes on with less protection, and with all when there is room.
func (c *cluster) memoryLimit() {
	end := c.fresh("end")
	want := c.alone("2", "100")
	c.limit("n2", "40m")
	defer c.limit("n2", "none")
	j := c.start("-v", "-hosts", "n1:2,n2:2", "-np", "2", "-spares", "1", "-cr=native", "-ckpt-dir", c.fresh("snapshots"), "-ckpt-mirror", "ring", "-ckpt-every", "300ms",
		c.file("march"), "-memory", "16", "-end", end)
	j.await("degraded: snapshot")
	said, _ := j.said.now()
	if !strings.Contains(said, "has no copy on node n2: ") || !strings.Contains(said, "it does not fit into the memory of the node") {
		c.t.Errorf("the reason is not told: %s", said)
	}
	c.limit("n2", "1g")
	j.await("has all copies again")
	c.ends(j, end, want)
}

// swaps: a node that holds copies has to swap them out, as its control group gets too little memory for them when they are there. Snapshots go on to
// be committed, and when the other node is lost its ranks go on from what was swapped out.
func (c *cluster) swaps() {
	c.swap()
	end := c.fresh("end")
	want := c.alone("2", "100")
	c.limit("n2", "1g")
	defer c.limit("n2", "none")
	j := c.start("-v", "-hosts", "n2:1,n3:1,n1:1", "-np", "2", "-spares", "1", "-restarts", "2", "-lease", "3s", "-cr=native", "-ckpt-dir", c.fresh("snapshots"), "-ckpt-mirror", "ring",
		"-ckpt-every", "300ms", c.file("march"), "-memory", "64", "-end", end)
	j.awaitTimes("checkpoint: committed", 3)
	c.squeeze("n2", "96m")
	said, _ := j.said.now()
	j.awaitTimes("checkpoint: committed", strings.Count(said, "checkpoint: committed")+3)
	c.Kill("n3")
	j.await("restarting from snapshot")
	c.ends(j, end, want)
	c.Start("n3")
}

// swap lets the machine swap to a file, if it does not already.
func (c *cluster) swap() {
	c.t.Helper()
	if all, err := os.ReadFile("/proc/swaps"); err == nil && strings.Count(string(all), "\n") > 1 {
		return
	}
	const script = `truncate -s 0 $1 && chmod 600 $1 && dd if=/dev/zero of=$1 bs=1M count=512 status=none && mkswap -q $1 && swapon $1`
	file := filepath.Join(c.t.TempDir(), "swap")
	if out, err := exec.Command("sh", "-c", script, "sh", file).CombinedOutput(); err != nil {
		c.t.Skipf("no swap can be had here: %v: %s", err, out)
	}
	c.t.Cleanup(func() {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			c.t.Errorf("swapoff: %v: %s", err, out)
		}
	})
}

// squeeze lowers the limit of a node and waits until that has swapped.
func (c *cluster) squeeze(node, bytes string) {
	c.t.Helper()
	swapped := func() int {
		text, _ := os.ReadFile("/proc/vmstat")
		_, rest, _ := strings.Cut(string(text), "\npswpout ")
		n := 0
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	before := swapped()
	c.limit(node, bytes)
	testenv.Until(c.t, func() string {
		if n := swapped() - before; n < 4096 {
			return fmt.Sprint("too little is swapped out: pages ", n)
		}
		return ""
	})
}

// limit limits the memory of what is started on a node by ssh from now on, in a control group of its own; "none" takes that back.
func (c *cluster) limit(node, bytes string) {
	c.t.Helper()
	const script = `
group=/sys/fs/cgroup/memory/$1 file=memory.limit_in_bytes all=/sys/fs/cgroup/memory
if [ ! -e $all/$file ]; then # version 2: the lab may have a group for the node
	group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup) file=memory.max all=
	[ -w $group/$file ] || exit 77
	if [ $2 = none ]; then echo max >$group/$file; else echo $2 >$group/$file; fi
	exit
fi
mkdir -p $group 2>/dev/null || exit 77
sshd=$(pgrep -o -f '^sshd: /usr/sbin/sshd -D')
if [ $2 = none ]; then
	for p in $(cat $group/cgroup.procs); do echo $p >$all/cgroup.procs; done
	rmdir $group
else
	echo $2 >$group/$file
	echo $sshd >$group/cgroup.procs
fi`
	out, err := c.Command(node, "sh", "-c", script, "sh", fmt.Sprintf("gorun-%d-%s", os.Getpid(), node), bytes).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 77 {
		c.t.Skip("there are no control groups here that limit memory")
	}
	if err != nil {
		c.t.Fatalf("limit %s on %s: %v\n%s", bytes, node, err, out)
	}
}
