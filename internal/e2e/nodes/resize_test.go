package nodes

import (
	"path/filepath"
	"strings"
)

// resized: 4 ranks on n1 and n2 are restarted as 6 on all nodes, and these as 1 on n3. Images stay on the nodes, sealed; each rank reads
// its rows of them where they lie, so n3 gets none but its own. A death before the first checkpoint of the 6 has them begin from those of the 4
// again.
func (c *cluster) resized() {
	buildOne(c.t, c.Shared(), "rows", "examples/heat/rows")
	dir, key := filepath.Join(c.Local(), "resized"), c.fresh("key")
	c.Exec("n1", c.file("gorun"), "key", key)
	program := []string{c.file("rows"), "-n", "24", "-steps", "400"}
	want := c.start(append([]string{"-np", "2"}, program...)...).well()
	j := c.start(append([]string{"-v", "-hosts", "n1:2,n2:2", "-np", "4", "-cr=self", "-ckpt-dir", filepath.Join(dir, "snapshots"),
		"-ckpt-local", filepath.Join(dir, "images", "%n"), "-ckpt-key", key}, append(program, "-slow", "5ms")...)...)
	schema := c.stop(j, dir)
	flags := []string{"-ckpt-dir", filepath.Join(dir, "snapshots"), "-v"}

	j = c.start(append(append([]string{"restart", "-np", "6", "-restarts", "1", "-hosts", "n3:2,n2:2,n1:2"}, flags...), schema)...)
	j.await("all 6 ranks are up")
	c.kill("n3", "/rows")
	j.await("restarting from snapshot 1")
	j.awaitTimes("all 6 ranks are up", 2)
	schema = strings.TrimSpace(c.Exec("n1", c.file("gorun"), "checkpoint", "-stop"))
	status, said := j.end()
	if status != 75 || strings.Contains(said, "by way of the head") {
		c.t.Errorf("6 ranks: status %d: %s", status, said)
	}
	if got := strings.Fields(c.images("n3", dir)); len(got) != 2 {
		c.t.Errorf("n3 has %q, and not just the images of its ranks", got)
	}
	j = c.start(append(append([]string{"restart", "-np", "1", "-hosts", "n3,n2,n1"}, flags...), schema)...)
	if got := j.well(); got != want {
		c.t.Errorf("%q, undisturbed %q", got, want)
	}
}
