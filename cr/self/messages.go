package self

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// messageHead is the length of what stands before a message's bytes.
const messageHead = 32

// encodeMessages writes the section of messages. The bytes of a message stay in the order in which they came.
// foreign says that this is not the image's order: the message was restored on another machine and is still not
// received. otherOrder says that the image is not in the order of this machine.
func encodeMessages(msgs []engine.Saved, order order, otherOrder bool) []byte {
	n := 8
	for _, m := range msgs {
		n += messageHead + len(m.Data)
	}
	p := make([]byte, 0, n)
	p = order.AppendUint64(p, uint64(len(msgs)))
	for _, m := range msgs {
		foreign := uint32(0)
		if m.Foreign != otherOrder {
			foreign = 1
		}
		p = order.AppendUint64(p, m.Ctx)
		p = order.AppendUint32(p, uint32(m.Source))
		p = order.AppendUint32(p, uint32(m.Tag))
		p = order.AppendUint32(p, m.Type)
		p = order.AppendUint32(p, foreign)
		p = order.AppendUint64(p, uint64(len(m.Data)))
		p = append(p, m.Data...)
	}
	return p
}

// decodeMessages reads the section; the messages keep p.
func decodeMessages(p []byte, order order, otherOrder bool) ([]engine.Saved, error) {
	bad := func(what string) error {
		return fmt.Errorf("%w: saved messages: %s", image.ErrCorrupt, what)
	}
	if len(p) < 8 {
		return nil, bad("no count")
	}
	n := order.Uint64(p)
	p = p[8:]
	if n > uint64(len(p)/messageHead) {
		return nil, bad("count")
	}
	msgs := make([]engine.Saved, 0, n)
	for i := range n {
		if len(p) < messageHead {
			return nil, bad(fmt.Sprint("message ", i, " is cut off"))
		}
		source, foreign, size := order.Uint32(p[8:]), order.Uint32(p[20:]), order.Uint64(p[24:])
		if source > math.MaxInt32 || foreign > 1 || size > uint64(len(p)-messageHead) {
			return nil, bad(fmt.Sprint("message ", i))
		}
		end := messageHead + int(size)
		msgs = append(msgs, engine.Saved{
			Ctx: order.Uint64(p), Source: int(source), Tag: int32(order.Uint32(p[12:])), Type: order.Uint32(p[16:]),
			Foreign: (foreign == 1) != otherOrder, Data: p[messageHead:end:end],
		})
		p = p[end:]
	}
	if len(p) != 0 {
		return nil, bad("bytes behind the last one")
	}
	return msgs, nil
}
