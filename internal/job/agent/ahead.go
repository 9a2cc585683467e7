package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// brings makes images available before the ranks that go on with them stop: as files of this node,
// in its page cache. What lies in a store without files is read when the rank is restored.
func (a *agent) brings(m *oob.Msg) error {
	var b wire.Bring
	if err := json.Unmarshal(m.Data, &b); err != nil {
		return fmt.Errorf("images to bring: %w", err)
	}
	go func() {
		ctx, cancel := a.untilQuit()
		defer cancel(nil)
		answer := oob.Msg{Kind: oob.Bring, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: m.A}
		if err := a.atHand(ctx, &b); err != nil {
			answer.Data = []byte(a.withRemedy(err).Error())
		}
		a.head.Send(answer)
	}()
	return nil
}

func (a *agent) atHand(ctx context.Context, b *wire.Bring) error {
	for i := range b.Images {
		from, err := a.bringOne(ctx, b.Stores, &b.Images[i])
		if file, ok := from.(image.Path); ok && err == nil {
			err = readThrough(ctx, string(file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readThrough reads a file to its end.
func readThrough(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for p := make([]byte, 1<<20); ctx.Err() == nil; {
		if _, err := f.Read(p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
