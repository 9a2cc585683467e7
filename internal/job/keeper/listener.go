package keeper

import (
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/holder"
)

// listen opens the listener to other nodes of the job, and sends the head its key.
func (k *keeper) listen() {
	var o listener.Opened
	if k.listener == nil {
		d, err := listener.Open("the listener of "+k.info.Host, holder.Handlers(k.memory, k.files.find))
		if err != nil {
			o.Err = err.Error()
		}
		k.listener = d
	}
	if k.listener != nil {
		o.Key = k.listener.Key()
	}
	k.head.Send(oob.Msg{Kind: oob.Listen, To: oob.Head, Data: wire.JSON(o)})
}
