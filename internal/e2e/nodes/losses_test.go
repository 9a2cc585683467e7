package nodes

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testenv"
)

// Jobs and labs of TestLosses. A loss is waited for longer than it is worked on, so there are several labs at once.
const (
	lossesAJob = 6
	labs       = 6
)

// TestLosses has GORUN_LOSSES nodes lost (0: as many as there are ways) in all ways, at steps of checkpoints and restarts and
// in between, several in the life of one job. Every way has its turn, in an order that GORUN_LOSSES_SEED draws with all else. See storm
// for what must hold.
func TestLosses(t *testing.T) {
	n := testenv.Number(t, "GORUN_LOSSES", 4*lossesAJob)
	if n == 0 {
		n = len(blows)
	}
	seed := uint64(testenv.Number(t, "GORUN_LOSSES_SEED", int(time.Now().Unix())))
	t.Logf("%d losses, GORUN_LOSSES=%d GORUN_LOSSES_SEED=%d", n, n, seed)
	jobs := deal(n, seed)
	built := t.TempDir()
	build(t, built)
	var next struct {
		sync.Mutex
		n int
	}
	var wait sync.WaitGroup
	for lab := range min(labs, len(jobs)) {
		wait.Go(func() {
			t.Run(fmt.Sprint("lab", lab), func(t *testing.T) {
				c := clusterOf(t, built, lossNodes)
				want := c.alone("4", lossSteps)
				for !t.Failed() {
					next.Lock()
					i := next.n
					next.n++
					next.Unlock()
					if i >= len(jobs) {
						return
					}
					c.part(fmt.Sprint("job", i), func(c *cluster) { c.storm(rand.New(rand.NewPCG(seed, uint64(i))), i, jobs[i], want) })
				}
			})
		})
	}
	wait.Wait()
}

// deal deals n losses out to jobs.
func deal(n int, seed uint64) (jobs [][]blow) {
	deck := make([]blow, n)
	for i := range deck {
		deck[i] = blows[i%len(blows)]
	}
	rand.New(rand.NewPCG(seed, 0xdea1)).Shuffle(n, func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
	for ; len(deck) > lossesAJob; deck = deck[lossesAJob:] {
		jobs = append(jobs, deck[:lossesAJob])
	}
	return append(jobs, deck)
}
