package job

// These are calls of package mpi for the other packages of this module, and not for programs. mpi
// sets these when it begins. A communicator is a *mpi.Comm. Package internal/testing/world gives
// the functions their types.
var (
	// Of returns the job of a communicator, nil if its argument is not one.
	Of func(comm any) *Job
	// NewWorld is world.New.
	NewWorld func(j *Job, onAbort func(text string)) (comm any, err error)
	// Leave is world.Leave.
	Leave func(world any) error
	// Finalize is world.Finalize.
	Finalize func(world any) error
	// Account is world.Account.
	Account func(world any) uint64
	// Settle is world.Settle.
	Settle func(world any) error
	// Shutdown is world.Shutdown.
	Shutdown func(world any)
)
