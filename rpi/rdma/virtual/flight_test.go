package virtual_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtualtest"
)

// TestFlight takes checkpoints in mid-flight on devices that lose, delay and reorder, for GORUN_RDMA_SEEDS seeds.
func TestFlight(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("GORUN_RDMA_SEEDS"))
	if err != nil {
		seeds = 40
	}
	if testing.Short() {
		seeds = min(seeds, 5)
	}
	for seed := range uint64(seeds) {
		faults := soft.Faults{Completions: int(seed%5) * 20, Order: seed%2 == 0, MTU: 700}
		if seed%3 > 0 {
			faults.Lost, faults.Twice, faults.Late, faults.Overtaken = int(seed%7)*4, int(seed%4)*5, int(seed%6)*10, int(seed%8)*5
		}
		const ranks = 3
		virtualtest.Run(t, virtualtest.Options{Seed: seed, Ranks: ranks, Size: 2000, Checkpoints: 4, Between: 60,
			Open: func(life int) ([]provider.Device, error) {
				fabric := soft.NewFabric(seed+uint64(life)<<32, faults)
				var list []provider.Device
				for range ranks {
					d, err := fabric.Open("")
					if err != nil {
						return nil, fmt.Errorf("life %d: %w", life, err)
					}
					list = append(list, d)
				}
				return list, nil
			}})
	}
}
