package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// carriers are the ways in which the messages of a job may go, as flags of gorun
// run and restart: through shared memory, over TCP, and through both, as between
// machines. A job checkpointed with one of them goes on with any other.
var carriers = [][]string{
	{"-rpi", "shm"},
	{"-rpi", "tcp"},
	{"-rpi", "shm,tcp", "-agents", "2", "-param", "job.nodes=agents"},
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
