package rxe

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/internal/guest"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
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
	status, err := guest.Run(t.Context(), k, guest.Options{Program: self, Args: []string{"-test.v", "-test.run=" + os.Getenv("GORUN_GUEST_RUN")}, Env: []string{inside + "=1"},
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
