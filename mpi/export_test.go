package mpi

import "time"

func init() { watchEvery = 50 * time.Millisecond }

// SetChoice replaces the table of a rank, before its first collective; hosts are
// those of the ranks of the world.
func SetChoice(world *Comm, params map[string]string, hosts []int) error {
	h := &world.env.chooser
	table, err := h.table.With(params)
	if err == nil {
		h.table, h.hosts = table, hosts
	}
	return err
}
