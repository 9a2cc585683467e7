package ofi

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtualtest"
)

// TestFlight takes GORUN_OFI_CHECKPOINTS checkpoints in mid-flight. Each life is over another of libfabric's providers, or over soft.
func TestFlight(t *testing.T) {
	if _, err := load(); err != nil {
		t.Skip(err)
	}
	n, err := strconv.Atoi(os.Getenv("GORUN_OFI_CHECKPOINTS"))
	if err != nil {
		n = 8
	}
	t.Cleanup(func() { // abandoned devices leave theirs to whoever opens one after this process
		files, _ := filepath.Glob(filepath.Join(shmDir, seenPrefix()+strconv.Itoa(os.Getpid())+"-*"))
		for _, file := range files {
			os.Remove(file)
		}
	})
	const ranks = 2
	for i := 0; n > 0; i++ {
		count := min(n, 10)
		n -= count
		virtualtest.Run(t, virtualtest.Options{Seed: uint64(i), Ranks: ranks, Size: 20_000, Checkpoints: count, Between: 60, Abandon: i%3 == 2,
			Open: func(life int) ([]provider.Device, error) {
				kind := (life*7 + i) % (len(everywhere) + 1)
				var list []provider.Device
				for range ranks {
					d, err := openKind(kind)
					if err != nil {
						return nil, fmt.Errorf("life %d: %w", life, err)
					}
					list = append(list, d)
				}
				return list, nil
			}})
	}
}

func openKind(kind int) (provider.Device, error) {
	if kind == len(everywhere) {
		return soft.Provider{}.Open("127.0.0.1")
	}
	return Provider{}.Open(everywhere[kind])
}
