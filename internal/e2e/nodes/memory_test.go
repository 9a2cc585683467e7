package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemory has snapshots in the memory of the nodes: no image ever touches a disk.
func TestMemory(t *testing.T) {
	c := newCluster(t, 6)
	c.part("native", func(c *cluster) { c.mirrored("native", "ring", "n2") })
	c.part("self, two neighbours", func(c *cluster) { c.mirrored("self", "ring:2", "n2", "n3") })
	c.part("the spare dies as it takes over", (*cluster).spareDies)
	c.part("too much is lost", (*cluster).lostWithMirror)
	c.part("refused", (*cluster).mirrorRefused)
}

// inMemory is a march on four nodes, and spares, with snapshots in memory. dir gets their schemas.
func (c *cluster) inMemory(cr, policy, end, dir string, more ...string) *job {
	args := []string{"-v", "-hosts", "n1:1,n2:1,n3:1,n4:1,n5:1,n6:1", "-np", "4", "-spares", "2", "-restarts", "3", "-lease", "3s", "-cr=" + cr,
		"-ckpt-dir", dir, "-ckpt-mirror", policy, "-ckpt-every", "200ms"}
	return c.start(append(append(args, more...), c.file("march"), "-end", end)...)
}

// finishWith lets a march end, and compares its sum.
func (c *cluster) finishWith(j *job, end, dir, want string) (said string) {
	c.t.Helper()
	images, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.img"))
	if err != nil || len(images) > 0 {
		c.t.Errorf("on a disk: %q, %v", images, err)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*", "schema.toml")); err != nil || len(left) > 0 {
		c.t.Errorf("schemas of images that are no more: %q, %v", left, err)
	}
	_, said = j.end()
	return said
}

// mirrored cuts the power of some nodes at once. Their ranks go on elsewhere, from mirrors.
func (c *cluster) mirrored(cr, policy string, victims ...string) {
	end, dir := c.fresh("end"), c.Shared()+"/memory-"+cr
	want := c.alone("4", "100")
	j := c.inMemory(cr, policy, end, dir)
	j.awaitTimes("checkpoint: committed", 3)
	for _, v := range victims {
		c.Kill(v)
	}
	j.await("restarting from snapshot")
	j.await("copies were made again")
	said := c.finishWith(j, end, dir, want)
	if strings.Contains(said, "by way of the head") {
		c.t.Errorf("images have passed the head: %s", said)
	}
	for _, v := range victims {
		c.Start(v)
	}
}

// spareDies: the node that is taking over is lost, too. The other spare takes its place.
func (c *cluster) spareDies() {
	end, dir := c.fresh("end"), c.Shared()+"/memory-spare"
	want := c.alone("4", "100")
	j := c.inMemory("native", "ring:2", end, dir)
	j.awaitTimes("checkpoint: committed", 2)
	c.Kill("n2")
	j.await("restarting from snapshot")
	c.Kill("n5")
	j.awaitTimes("restarting from snapshot", 2)
	j.await("copies were made again")
	c.finishWith(j, end, dir, want)
	c.Start("n2")
	c.Start("n5")
}

// lostWithMirror loses a node and the one with its mirrors: no snapshot is whole, which is said, and the job begins anew.
func (c *cluster) lostWithMirror() {
	end, dir := c.fresh("end"), c.Shared()+"/memory-lost"
	want := c.alone("4", "100")
	j := c.inMemory("native", "ring", end, dir)
	j.awaitTimes("checkpoint: committed", 2)
	c.Kill("n2")
	c.Kill("n3")
	j.await("restarting from the start")
	if said := c.finishWith(j, end, dir, want); !strings.Contains(said, "cannot be used: rank 1: ") {
		c.t.Errorf("not told what is lost: %s", said)
	}
	c.Start("n2")
	c.Start("n3")
}

// mirrorRefused: a policy that the nodes cannot keep is refused before anything runs.
func (c *cluster) mirrorRefused() {
	status, said := c.start("-hosts", "n1,n2", "-cr=self", "-ckpt-mirror", "ring:2", c.file("march")).end()
	if status != 2 || !strings.Contains(said, "policy ring:2 needs 3 node(s), and there are 2") {
		c.t.Errorf("status %d: %s", status, said)
	}
	status, said = c.start("-hosts", "n1,n2", "-cr=self", "-ckpt-mirror", "rack", c.file("march")).end()
	if status != 2 || !strings.Contains(said, "the rack of node n1 is not known") {
		c.t.Errorf("status %d: %s", status, said)
	}
}
