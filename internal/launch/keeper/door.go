package keeper

import (
	"github.com/gorun-mpi/gorun/internal/launch/door"
	"github.com/gorun-mpi/gorun/internal/launch/holder"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// openDoor opens the door to other nodes of the job, and sends the head its key.
func (k *keeper) openDoor() {
	var o door.Opened
	if k.door == nil {
		d, err := door.Open("the door of "+k.info.Host, holder.Handlers(k.memory, k.files.find))
		if err != nil {
			o.Err = err.Error()
		}
		k.door = d
	}
	if k.door != nil {
		o.Key = k.door.Key()
	}
	k.head.Send(oob.Msg{Kind: oob.Door, To: oob.Head, Data: wire.JSON(o)})
}
