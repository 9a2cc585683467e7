//go:build !gorun_nolayer

package rdma

import (
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// layer stands between the module and the device.
type layer = virtual.Device

func newLayer(rank int, real provider.Device) *layer { return virtual.NewDevice(rank, real) }
