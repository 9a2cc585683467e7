package keeper

import (
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/holder"
)

// openDoor opens the door to other nodes of the job, and sends the head its key.
func (k *keeper) openDoor() {
	var o listener.Opened
	if k.door == nil {
		d, err := listener.Open("the door of "+k.info.Host, holder.Handlers(k.memory, k.files.find))
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
