package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// carriers are the ways in which the messages of a job may go, as flags of gorun
// run and restart: through shared memory, over TCP, and through both, as between
// machines. A job checkpointed with one of them goes on with any other.
var carriers = [][]string{
	{"-rpi", "shm"},
	{"-rpi", "tcp"},
	{"-rpi", "shm,tcp", "-agents", "2", "-param", "job.nodes=agents"},
}

// algorithms chooses at random how collectives are carried out, as flags of gorun
// run: as usual, or all of them through memory that the ranks of a node share.
func algorithms(t testing.TB, rng *rand.Rand) (flags []string) {
	for _, c := range coll.Collectives {
		if slices.Contains(c.Algorithms, coll.Shared) {
			flags = append(flags, "-param", coll.Prefix+c.Name+"="+coll.Shared.String())
		}
	}
	if rng.IntN(2) == 0 {
		flags = nil
	}
	t.Log(flags)
	return slices.Clip(flags)
}

// carrier chooses one at random.
func carrier(t testing.TB, rng *rand.Rand) []string {
	c := carriers[rng.IntN(len(carriers))]
	t.Log(c)
	return slices.Clip(c)
}

// anyCarrier chooses at random for tests that choose nothing else so.
func anyCarrier(t testing.TB) []string {
	c := carriers[rand.IntN(len(carriers))]
	t.Log(c)
	return slices.Clip(c)
}
