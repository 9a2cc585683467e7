package nodes

import (
	"os"
	"strings"
)

// networks: ranks use the network that they are told to, of either family.
func (c *cluster) networks() {
	want := c.alone("2", "20")
	for network, peer := range map[string]string{"10.78.0.0/24": "10.78.0.2", "fd77::/64": "[fd77::2]", "eth1": "10.78.0.2"} {
		end := c.fresh("end-" + strings.NewReplacer("/", "", ":", "").Replace(network))
		j := c.start("-v", "-hosts", "n1:1,n2:1", "-np", "2", "-param", "tcp.networks="+network, c.file("march"), "-steps", "20", "-end", end)
		j.await("all 2 ranks are up")
		c.Exec("n1", "sh", "-c", "until ss -Htnp | grep -F '\"march\"' | grep -qF '"+peer+"'; do sleep 0.05; done")
		if err := os.WriteFile(end, nil, 0o644); err != nil {
			c.t.Fatal(err)
		}
		if out := j.well(); c.sum(out) != want {
			c.t.Errorf("over %s: %s, on one node %s", network, out, want)
		}
	}
}

// detour: two nodes reach one another on the second network alone.
func (c *cluster) detour() {
	c.Exec("n2", "nft", "add table inet f; add chain inet f in { type filter hook input priority 0; }; "+
		"add rule inet f in ip saddr 10.77.0.3 drop; add rule inet f in ip6 saddr fd77::3 drop")
	defer c.Exec("n2", "nft", "delete table inet f")
	out := c.start("-hosts", "n1:1,n2:1,n3:1", "-np", "3", c.file("march"), "-steps", "20").well()
	if want := c.alone("3", "20"); c.sum(out) != want {
		c.t.Errorf("%s, on one node %s", out, want)
	}
}

// pairCut: two nodes are cut from one another, and the head sees both. The life ends, says so, and the next one does
// without the one with the higher number. The lease is the time that this takes.
func (c *cluster) pairCut() {
	end, snaps := c.fresh("end"), c.fresh("snapshots")
	want := c.alone("3", "100")
	j := c.start("-v", "-hosts", "n1:1,n2:1,n3:1,n4:1", "-np", "3", "-spares", "1", "-restarts", "1", "-lease", "4s", "-param", "tcp.suspect=1s",
		"-cr=self", "-ckpt-dir", snaps, "-ckpt-every", "200ms", c.file("march"), "-steps", "100", "-end", end)
	j.await("checkpoint: committed")
	c.Partition([]string{"n2"}, []string{"n3"})
	defer c.Heal()
	j.await("; without n3 from now on; restarting from snapshot")
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	out := j.well()
	if c.sum(out) != want || !strings.Contains(out, "nodes n1 n2 n4\n") {
		c.t.Errorf("%s, undisturbed %s", out, want)
	}
	said, _ := j.said.now()
	if !strings.Contains(said, "both nodes answer here") || strings.Contains(said, "is lost") {
		c.t.Error(said)
	}
}
