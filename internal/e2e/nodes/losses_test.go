package nodes

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testenv"
)

// TestLosses has a node lost in a random way at a random moment: while the job starts, runs, takes a
// checkpoint or ends. The result must be that of an undisturbed run, and nothing may be left. Of two
// losses the second meets the restart.
func TestLosses(t *testing.T) {
	n := testenv.Number(t, "GORUN_LOSSES", 1)
	seed := uint64(testenv.Number(t, "GORUN_LOSSES_SEED", int(time.Now().Unix())))
	t.Logf("%d losses, GORUN_LOSSES_SEED=%d", n, seed)
	c := newCluster(t, 5)
	want := c.alone("4", "300")
	for i := range n {
		c.part(strconv.Itoa(i), func(c *cluster) { c.loses(rand.New(rand.NewPCG(seed, uint64(i))), want) })
	}
}

// loss is a way to lose a node, and to have it back.
type loss struct {
	name       string
	lose, back func(c *cluster, node string)
}

var losses = []loss{
	{"power cut", func(c *cluster, n string) { c.Kill(n) }, func(c *cluster, n string) { c.Start(n) }},
	{"cut off", func(c *cluster, n string) { c.Partition([]string{n}, nil) }, func(c *cluster, n string) { c.Heal() }},
	{"deaf", func(c *cluster, n string) { c.PartitionOneWay([]string{"n1"}, []string{n}) }, func(c *cluster, n string) { c.Heal() }},
	{"standing still", func(c *cluster, n string) { c.Pause(n) }, func(c *cluster, n string) { c.Resume(n) }},
	{"keeper killed", func(c *cluster, n string) {
		c.Command(n, "pkill", "-KILL", "-f", "gorun __keeper").Run() // it may not be there yet
	}, func(*cluster, string) {}},
}

// loses runs one job and loses one or two of its nodes, which may be spares. Two spares remain for
// what has ranks.
func (c *cluster) loses(rng *rand.Rand, want string) {
	cr := []string{"self", "native"}[rng.IntN(2)]
	j := c.start("-v", "-hosts", "n1:1,n2:2,n3:1,n4:2,n5:2", "-np", "4", "-spares", "2", "-restarts", "5", "-lease", "3s",
		"-cr="+cr, "-ckpt-dir", c.fresh("snapshots"), "-ckpt-every", "100ms", c.file("march"), "-steps", "300", "-pause", "5ms")
	victims := []string{"n2", "n3", "n4", "n5"}
	rng.Shuffle(len(victims), func(i, k int) { victims[i], victims[k] = victims[k], victims[i] })
	for _, node := range victims[:1+rng.IntN(2)] {
		l, after := losses[rng.IntN(len(losses))], time.Duration(rng.IntN(5000))*time.Millisecond
		c.t.Logf("-cr=%s: %s: %s after %v", cr, node, l.name, after)
		select { // a random moment, not a condition
		case <-j.over:
		case <-time.After(after):
		}
		l.lose(c, node)
		defer l.back(c, node)
	}
	if out := j.well(); c.sum(out) != want {
		said, _ := j.said.now()
		c.t.Errorf("%s, undisturbed %s\n%s", out, want, said)
	}
}
