package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemory has snapshots in the memory of the nodes: no image ever touches a disk. Three jobs have the same losses: two
// neighbours at once, and then a spare that has just taken over. The first has shards of two images each, the others copies.
func TestMemory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 7)
	end := c.fresh("end")
	want := c.alone("4", "100")
	native, self, weak := c.inMemory("native", "code:2+2", end), c.inMemory("self", "ring:2", end), c.inMemory("native", "ring", end)
	all := []*job{native, self, weak}
	for _, j := range all {
		j.awaitTimes("checkpoint: committed", 3)
	}
	c.Kill("n2", "n3")
	for _, j := range all[:2] {
		j.await("restarting from snapshot")
	}
	weak.await("restarting from the start") // n3 had the copies of n2
	c.Kill("n5")
	for _, j := range all[:2] {
		j.awaitTimes("restarting from snapshot", 2)
		j.await("copies were made again")
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, j := range all {
		if got := c.sum(j.well()); got != want {
			t.Errorf("sum %s, undisturbed %s", got, want)
		}
		if _, said := j.end(); strings.Contains(said, "by way of the head") {
			t.Errorf("images have passed the head: %s", said)
		}
	}
	if _, said := weak.end(); !strings.Contains(said, "cannot be used: rank 1: ") {
		t.Errorf("not told what is lost: %s", said)
	}
	for _, name := range []string{"*.img", "schema.toml"} {
		if left, err := filepath.Glob(filepath.Join(c.Shared(), "memory", "*", "*", "*", name)); err != nil || len(left) > 0 {
			t.Errorf("left on a disk: %q, %v", left, err)
		}
	}
}

// inMemory is a march on four nodes, with three spares and snapshots in memory.
func (c *cluster) inMemory(cr, policy, end string) *job {
	return c.start("-v", "-hosts", "n1:1,n2:1,n3:1,n4:1,n5:1,n6:1,n7:1", "-np", "4", "-spares", "3", "-restarts", "3", "-lease", "3s", "-cr="+cr,
		"-ckpt-dir", filepath.Join(c.Shared(), "memory", cr+policy), "-ckpt-mirror", policy, "-ckpt-every", "200ms", c.file("march"), "-end", end)
}

// weaker: nodes are lost until the policy does not fit those that are left. As much of it is kept as can be, so the job survives the loss of the next.
func (c *cluster) weaker() {
	end := c.fresh("end")
	want := c.alone("2", "100")
	j := c.start("-v", "-hosts", "n1:2,n2:2,n3:2", "-map", "node", "-np", "2", "-spares", "1", "-shrink-to-fit", "-restarts", "3", "-lease", "3s", "-cr=native",
		"-ckpt-dir", c.fresh("snapshots"), "-ckpt-mirror", "ring:2", "-ckpt-every", "200ms", c.file("march"), "-end", end)
	j.await("checkpoint: committed")
	c.Kill("n2")
	j.await("restarting from snapshot")
	j.await("ring is kept in its place")
	said, _ := j.said.now()
	j.awaitTimes("checkpoint: committed", strings.Count(said, "checkpoint: committed")+2)
	c.Kill("n3")
	j.awaitTimes("restarting from snapshot", 2)
	c.ends(j, end, want)
	c.Start("n2")
	c.Start("n3")
}

// lastOfShards: a node is lost, and the job with it. What the level in the folder gets at the end is whole, though one of its images was on that
// node alone: it is computed of the shards.
func (c *cluster) lastOfShards() {
	end, dir := c.fresh("end"), c.fresh("snapshots")
	want := c.alone("3", "100")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", "-lease", "3s", "-cr=native", "-ckpt-dir", dir, "-ckpt-mirror", "code:2+1", "-ckpt-every", "mem=200ms,dir=1h",
		c.file("march"), "-end", end)
	j.awaitTimes("checkpoint: committed", 2)
	c.Kill("n2") // ranks 0 and 1 have a shard on n3
	if status, said := j.end(); status == 0 || !strings.Contains(said, "level dir has snapshot") {
		c.t.Errorf("exit %d: %s", status, said)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(c.start("restart", "-hosts", "n1:2,n3:2", "-ckpt-every", "0", "-ckpt-mirror", "", "-ckpt-dir", dir, "latest").well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
	c.Start("n2")
}

// lastOfDamaged: what a node has in its memory is damaged. The level in the folder gets the images of that node from those that have copies.
func (c *cluster) lastOfDamaged() {
	end, dir := c.fresh("end"), c.fresh("snapshots")
	want := c.alone("3", "100")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", "-cr=native", "-ckpt-dir", dir, "-ckpt-mirror", "ring", "-ckpt-every", "mem=1h,dir=2h", c.file("march"), "-end", end)
	j.await("all 3 ranks are up")
	c.Exec("n1", c.file("gorun"), "checkpoint")
	c.damageMemory("n2")
	c.kill("n3", "/march")
	if status, said := j.end(); status == 0 || !strings.Contains(said, "level dir has snapshot 1") {
		c.t.Errorf("exit %d: %s", status, said)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(c.start("restart", "-hosts", "n1:2,n2:2", "-ckpt-every", "0", "-ckpt-mirror", "", "-ckpt-dir", dir, "latest").well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
}

// damagedOwn: what a node has in its memory is damaged, also what is read of an image before anything is started. The restart takes the copy of another node.
func (c *cluster) damagedOwn() {
	end := c.fresh("end")
	want := c.alone("3", "100")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1", "-np", "3", "-restarts", "1", "-cr=native", "-ckpt-dir", c.fresh("snapshots"), "-ckpt-mirror", "code:2+1", "-ckpt-every", "1h",
		c.file("march"), "-end", end)
	j.await("all 3 ranks are up")
	c.Exec("n1", c.file("gorun"), "checkpoint")
	c.damageMemory("n2")
	c.kill("n3", "/march")
	j.await("restarting from snapshot 1")
	c.ends(j, end, want)
}

// damageMemory damages all images and shards in the memory of a node, from end to end, except what tells that they are such.
func (c *cluster) damageMemory(node string) {
	c.Exec(node, "sh", "-c", `for f in /proc/[0-9]*/fd/*; do
		case $(readlink $f) in */memfd:gorun-image*)
			head -c $(($(stat -Lc %s $f) - 12288)) /dev/urandom | dd of=$f seek=1 bs=4k conv=notrunc status=none;;
		esac
	done`)
}
