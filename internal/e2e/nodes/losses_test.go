package nodes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// Jobs and labs of TestLosses. A loss is waited for longer than it is worked on, so there are several labs at once.
const (
	lossesAJob = 6
	labs       = 6 // each has one job at least, even if there is no time for more
)

// TestLosses has GORUN_LOSSES nodes lost (0: as many as there are ways) in all ways, at steps of checkpoints and restarts and
// in between, several in the life of one job. Every way has its turn, in an order that GORUN_LOSSES_SEED draws with all else. See storm
// for what must hold. With GORUN_LOSSES_MEMORY=1 every other job has its images in the memory of the nodes, see keeps.
func TestLosses(t *testing.T) {
	n := testenv.Number(t, "GORUN_LOSSES", 4*lossesAJob)
	if n == 0 {
		n = len(blows)
	}
	seed := uint64(testenv.Number(t, "GORUN_LOSSES_SEED", int(time.Now().Unix())))
	t.Logf("%d losses, GORUN_LOSSES=%d GORUN_LOSSES_SEED=%d GORUN_LOSSES_MEMORY=%d", n, n, seed, testenv.Number(t, "GORUN_LOSSES_MEMORY", 0))
	memory := testenv.Number(t, "GORUN_LOSSES_MEMORY", 0) != 0
	jobs := deal(n, seed)
	built := t.TempDir()
	build(t, built)
	var next struct {
		sync.Mutex
		n int
	}
	var had atomic.Int64
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
					if i >= len(jobs) || i >= labs && testenv.Late(t) {
						return
					}
					had.Add(1)
					c.part(fmt.Sprint("job", i), func(c *cluster) { c.storm(rand.New(rand.NewPCG(seed, uint64(i))), i, memory, jobs[i], want) })
				}
			})
		})
	}
	wait.Wait()
	t.Logf("%d of %d jobs were had", had.Load(), len(jobs))
}

// deal deals n losses out to jobs: each way once, then each once more, and so on.
func deal(n int, seed uint64) (jobs [][]blow) {
	deck := make([]blow, n)
	for i := range deck {
		deck[i] = blows[i%len(blows)]
	}
	rng := rand.New(rand.NewPCG(seed, 0xdea1))
	for round := range slices.Chunk(deck, len(blows)) {
		rng.Shuffle(len(round), func(i, k int) { round[i], round[k] = round[k], round[i] })
	}
	for ; len(deck) > lossesAJob; deck = deck[lossesAJob:] {
		jobs = append(jobs, deck[:lossesAJob])
	}
	return append(jobs, deck)
}
