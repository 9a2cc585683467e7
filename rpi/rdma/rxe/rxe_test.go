package rxe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/internal/guest"
	"github.com/gorun-mpi/gorun/internal/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtualtest"
)

// inside is set in a guest.
const inside = "GORUN_INSIDE"

// Modules are those of the kernel that a guest needs.
var modules = []string{"e1000", "crc32_generic", "rdma_rxe"}

// TestGuest runs the other tests in a guest, where there is a device.
func TestGuest(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("this is one")
	}
	k, err := guest.Find()
	if err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status, err := guest.Run(t.Context(), k, guest.Options{Program: self, Args: []string{"-test.v", "-test.run=" + os.Getenv("GORUN_GUEST_RUN")}, Env: []string{inside + "=1", "GORUN_RXE_CHECKPOINTS=" + os.Getenv("GORUN_RXE_CHECKPOINTS")},
		Modules: modules, Soft: "rxe0", Out: &out})
	t.Log(out.String())
	if err != nil || status != 0 {
		t.Errorf("status %d, %v", status, err)
	}
}

// TestProvider tests what package provider promises.
func TestProvider(t *testing.T) {
	list, err := Provider{}.List()
	if errors.Is(err, errNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", list)
	providertest.Run(t, func() (provider.Device, error) { return Provider{}.Open("") })
}

// TestFlight takes checkpoints in mid-flight. Each life is over soft-RoCE or over soft, in turn and not.
func TestFlight(t *testing.T) {
	if _, err := (Provider{}).List(); errors.Is(err, errNone) {
		t.Skip(err)
	}
	const ranks = 2
	for i, n := 0, testenv.Number(t, "GORUN_RXE_CHECKPOINTS", 12); n > 0; i++ {
		count := min(n, 10)
		n -= count
		virtualtest.Run(t, virtualtest.Options{Seed: uint64(i), Ranks: ranks, Size: 20_000, Checkpoints: count, Between: 60,
			Open: func(life int) (list []provider.Device, err error) {
				for range ranks {
					var d provider.Device
					if (life*7+i)%3 == 2 {
						d, err = soft.Provider{}.Open("127.0.0.1")
					} else {
						d, err = Provider{}.Open("")
					}
					if err != nil {
						return nil, fmt.Errorf("life %d: %w", life, err)
					}
					list = append(list, d)
				}
				return list, nil
			}})
	}
}
