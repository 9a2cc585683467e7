package keeper

import (
	"context"
	"encoding/json"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// copy copies an image of another node into the memory of this one, in a goroutine of its own. An
// order without data gives up the copy of that number.
func (k *keeper) copy(m *oob.Msg) {
	number := m.A
	if len(m.Data) == 0 {
		if cancel, ok := k.copying.LoadAndDelete(number); ok {
			cancel.(context.CancelFunc)()
		}
		return
	}
	var o wire.Copy
	err := json.Unmarshal(m.Data, &o)
	ctx, cancel := context.WithCancel(k.ctx)
	k.copying.Store(number, cancel)
	k.copies.Go(func() {
		defer cancel()
		if err == nil {
			err = k.copier.Copy(ctx, &o)
		}
		k.copying.Delete(number)
		var c wire.Copied
		if err != nil {
			c.Err = err.Error()
		}
		k.head.Send(oob.Msg{Kind: oob.Copied, To: oob.Head, A: number, Data: wire.JSON(c)})
	})
}

// release gives the memory back.
func (k *keeper) release() {
	k.cancel()
	k.copies.Wait()
	k.memory.Close()
}
