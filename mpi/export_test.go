package mpi

import "time"

func init() { watchEvery = 50 * time.Millisecond }

// Finalizing makes a rank one that waits in Finalize.
func Finalizing(world *Comm) { world.env.finalizing() }

// SetChoice replaces the table of a rank, before its first collective; hosts are
// those of the ranks of the world, if they are others than before.
func SetChoice(world *Comm, params map[string]string, hosts []int) error {
	h := &world.env.chooser
	table, err := h.table.With(params)
	if err == nil {
		h.table = table
	}
	if hosts != nil {
		h.hosts = hosts
	}
	return err
}
