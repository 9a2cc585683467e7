package mpi

import "github.com/gorun-mpi/gorun/internal/protocol/oob"

// State is what is known of a rank; see Health.
type State int

// States of a rank.
const (
	Healthy State = oob.HealthGood
	Suspect State = oob.HealthSuspect // its machine has not answered for some time: it is slow, or lost
	Failed  State = oob.HealthFailed  // it has ended, or was given up
)

func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Suspect:
		return "suspect"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Health returns the state of each rank of c, of an intercommunicator each of the remote group, and a channel that is
// closed when the state of any rank of the job changes. A program that waits for that calls Health again, and misses nothing.
//
//	for {
//		states, changed, err := mpi.Health(c)
//		...
//		<-changed
//	}
//
// The launcher judges: a rank is suspect when its agent has left two heartbeats unanswered (gorun -heartbeat), and healthy when that
// answers again. A program may take it as advice, for example to give a slow machine less work. After a failure the job ends or is restarted,
// so Failed is seen only until then, as by a handler of SIGTERM. After a restart all are healthy. Without a launcher all are, for
// ever. The slice is the caller's. Errors: ErrComm. (MPI has no such call; GASPI's state vector is its model.)
func Health(c *Comm) (states []State, changed <-chan struct{}, err error) {
	if err := c.ready(); err != nil {
		return nil, nil, c.fail("Health", err)
	}
	known, changed := c.env.job.Health()
	states = make([]State, c.size)
	for r := range states {
		if known != nil {
			states[r] = State(known[c.toWorld(r)])
		}
	}
	return states, changed, nil
}
