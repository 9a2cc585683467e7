package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocal takes snapshots whose images stay on the nodes: no file system is shared, except for the program.
func TestLocal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.part("native", func(c *cluster) { c.local("native") })
	c.more("self", func(c *cluster) { c.local("self") })
	c.part("move", (*cluster).movesLocal)
	c.part("lost", (*cluster).lostImages)
	c.part("levels", (*cluster).lostLevel)
	c.part("killed", (*cluster).killedLevels)
	c.part("sealed", (*cluster).sealedLocal)
	c.more("resized", (*cluster).resized)
	c.part("full level", (*cluster).fullLevel)
	c.part("memory limit", (*cluster).memoryLimit)
	c.more("swaps", (*cluster).swaps)
	c.part("weaker", (*cluster).weaker)
	c.part("last of shards", (*cluster).lastOfShards)
	c.part("last of damaged", (*cluster).lastOfDamaged)
	c.part("damaged own", (*cluster).damagedOwn)
}

// jobAt is a march whose images stay on the nodes.
func (c *cluster) jobAt(dir, cr, nodes, end string, more ...string) *job {
	args := append([]string{"-v", "-hosts", nodes, "-np", "4", "-cr=" + cr, "-ckpt-dir", filepath.Join(dir, "snapshots"), "-ckpt-local", filepath.Join(dir, "images", "%n")}, more...)
	return c.start(append(args, c.file("march"), "-end", end)...)
}

// stop takes a snapshot of the running job, and ends it.
func (c *cluster) stop(j *job, dir string) (schema string) {
	c.t.Helper()
	j.await("all 4 ranks are up")
	schema = strings.TrimSpace(c.Exec("n1", c.file("gorun"), "checkpoint", "-stop"))
	if status, said := j.end(); status != 75 {
		c.t.Fatalf("checkpoint -stop: status %d: %s", status, said)
	}
	return schema
}

// images lists the images that a node has.
func (c *cluster) images(node, dir string) string {
	return c.Exec(node, "find", filepath.Dir(dir), "-path", dir+"/*.img", "-printf", "%f ")
}

func (c *cluster) local(cr string) {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), cr)
	want := c.alone("4", "100")
	first := c.stop(c.jobAt(dir, cr, "n1:2,n2:2", end, "-param", "job.addresses=asked"), dir) // as in large jobs, and in its restarts
	job := filepath.Base(filepath.Dir(filepath.Dir(first)))
	for node, n := range map[string]int{"n1": 2, "n2": 2, "n3": 0} {
		if got := c.images(node, dir); len(strings.Fields(got)) != n {
			c.t.Errorf("%s has the images %q, %d are wanted", node, got, n)
		}
	}
	out := c.Exec("n1", c.file("gorun"), "snapshots", "-ckpt-dir", filepath.Join(dir, "snapshots"))
	if !strings.Contains(out, "n1: ranks 0-1; n2: ranks 2-3 (node "+dir+"/images/%n)") {
		c.t.Errorf("gorun snapshots: %s", out)
	}

	// Elsewhere: n3 has nothing, and n2 gets the ranks that n1 had.
	flags := []string{"-ckpt-dir", filepath.Join(dir, "snapshots"), "-v"}
	j := c.start(append(append([]string{"restart", "-hosts", "n2:2,n3:2,n1:2"}, flags...), first)...)
	c.stop(j, dir)
	if got := strings.Fields(c.images("n3", dir)); len(got) != 4 {
		c.t.Errorf("n3 has %q, and not two images that it has fetched and two of its own", got)
	}
	if _, said := j.end(); strings.Contains(said, "by way of the head") {
		c.t.Errorf("n3 has not read of n2 itself: %s", said)
	}

	// Without n3 the second snapshot is not whole. The first is.
	c.Kill("n3")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	j = c.start(append(append([]string{"restart", "-hosts", "n1:2,n2:2"}, flags...), job)...)
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
	if _, said := j.end(); !strings.Contains(said, "snapshot 2 of job "+job+" cannot be used") || !strings.Contains(said, "n3") {
		c.t.Errorf("not told that n3 is missed: %s", said)
	}
	c.Start("n3")

	// What n3 has is removed by a job that has n3.
	status, said := c.start("snapshots", "-ckpt-dir", filepath.Join(dir, "snapshots"), "-remove", job).end()
	if status == 0 || !strings.Contains(said, "n2, n3") {
		c.t.Errorf("nodes that are not reached are not named: %d, %s", status, said)
	}
}

// lostImages: the images of a node go with it. The job begins again, as no snapshot is whole, and says why. Where
// only a rank dies, it goes on from the images on its node.
func (c *cluster) lostImages() {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), "lost")
	want := c.alone("4", "100")
	j := c.jobAt(dir, "native", "n1:2,n2:2,n3:2", end, "-spares", "1", "-restarts", "2", "-lease", "3s", "-ckpt-every", "300ms")
	j.await("checkpoint: committed")
	c.kill("n2", "/march")
	j.await("restarting from snapshot")
	j.await("ranks restored: 4")
	c.Kill("n2")
	j.await("restarting from the start")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
	if _, said := j.end(); !strings.Contains(said, "cannot be used: ") || !strings.Contains(said, "a node does not answer: n2") {
		c.t.Errorf("not told that n2 is missed: %s", said)
	}
	c.Start("n2")
}

// lostLevel: the images of a node go with it, and those that were copied to the folder that all see do not. The job goes on
// from the newest snapshot of which each image is somewhere.
func (c *cluster) lostLevel() {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), "levels")
	want := c.alone("4", "100")
	j := c.jobAt(dir, "native", "n1:2,n2:2,n3:2", end, "-spares", "1", "-restarts", "2", "-lease", "3s", "-keep", "2",
		"-ckpt-dir", c.fresh("snapshots"), "-ckpt-every", "node=200ms,dir=500ms")
	j.await("level dir has snapshot")
	c.Kill("n2")
	j.await("restarting from snapshot")
	j.await("ranks restored: 4")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
	c.Start("n2")
}

// killedLevels: the head is killed, and with it goes the newest snapshot, which was in memory alone. The restart goes on from
// the one before on the nodes, which is looked at when these are up.
func (c *cluster) killedLevels() {
	end, dir := c.fresh("end"), filepath.Join(c.Local(), "killed")
	want := c.alone("4", "100")
	j := c.jobAt(dir, "self", "n1:2,n2:2", end, "-lease", "3s", "-ckpt-mirror", "ring", "-ckpt-every", "mem=200ms,node=1s")
	j.await("level node has snapshot")
	said, _ := j.said.now()
	j.awaitTimes("checkpoint: committed", strings.Count(said, "checkpoint: committed")+2)
	c.kill("n1", "shared/gorun -v ")
	j.end()
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	j = c.start("restart", "-hosts", "n1:2,n2:2", "-ckpt-dir", filepath.Join(dir, "snapshots"), "latest")
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
}

// sealedLocal: images on nodes that are sealed are fetched as they are, and opened where they are read.
func (c *cluster) sealedLocal() {
	end, dir, key := c.fresh("end"), filepath.Join(c.Local(), "sealed"), c.fresh("key")
	want := c.alone("4", "100")
	c.Exec("n1", c.file("gorun"), "key", key)
	schema := c.stop(c.jobAt(dir, "native", "n1:2,n2:2", end, "-ckpt-key", key), dir)
	if out := c.Exec("n2", "sh", "-c", "cat "+dir+"/images/n2/*/*/*/*.img | head -c 8"); out != "gorunSE1" {
		c.t.Errorf("an image on n2 begins with %q", out)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	j := c.start("restart", "-hosts", "n2:2,n3:2,n1:2", "-ckpt-dir", filepath.Join(dir, "snapshots"), schema)
	if got := c.sum(j.well()); got != want {
		c.t.Errorf("sum %s, undisturbed %s", got, want)
	}
}
