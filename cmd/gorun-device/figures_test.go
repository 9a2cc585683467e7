package main

import (
	"slices"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// TestFigures compares the move of what two ranks have on a device to another one with a checkpoint to the disk and a restart on that.
func TestFigures(t *testing.T) {
	rounds := testenv.Number(t, "GORUN_DEVICE_FIGURES", 0)
	if rounds == 0 {
		t.Skip("it takes minutes and tells times only: set GORUN_DEVICE_FIGURES to a number of rounds")
	}
	j := newJobs(t)
	id, wait := j.start("./floyd", "-n", "4000")
	j.processes(id)
	at, to := j.id, j.other
	var moves, restarts []time.Duration
	for range rounds {
		for range 2 { // there and back
			begin := time.Now()
			step{[]string{"migrate", id, "-device", number(at), "-to", number(to)}, true, "2 device(s) moved"}.do(j)
			moves = append(moves, time.Since(begin))
			at, to = to, at
		}
		begin := time.Now()
		step{[]string{"checkpoint", "-stop", id}, true, "schema.toml"}.do(j)
		wait()
		id, wait = j.up("restart", "-device", to, id)
		restarts = append(restarts, time.Since(begin))
		j.processes(id)
		at, to = to, at
	}
	step{[]string{"kill", id}, true, ""}.do(j)
	wait()
	slices.Sort(moves)
	slices.Sort(restarts)
	move, restart := moves[rounds], restarts[rounds/2]
	t.Logf("moves %v\nrestarts %v\nmedians %v and %v, ratio %.2f", moves, restarts, move, restart, float64(move)/float64(restart))
}
