package listener

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// Files is the word for reading stores.
const Files = "files"

// Offer is the Handler of Files: callers read what find finds. Nothing is removed through a door. The head alone does
// that, by the keeper's own stream: a caller may be of a life that is over.
func Offer(find func(name string) remote.Served) Handler {
	read := func(name string) remote.Served {
		if s := find(name); s != nil {
			return readOnly{s}
		}
		return nil
	}
	return func(_ rendezvous.Caller, s oob.Stream) {
		conn := oob.New(s)
		// A caller that reads nothing holds up only the goroutines that read for it.
		server := remote.NewServer(read, func(p []byte) error { return conn.Send(oob.Msg{Kind: oob.Files, To: oob.Head, Data: p}) })
		defer server.Close()
		hear(conn, server.Handle)
	}
}

// readOnly is a store as callers see it.
type readOnly struct{ remote.Served }

// Remove refuses.
func (readOnly) Remove(context.Context, string) error {
	return fmt.Errorf("remove through a door: %w", store.ErrReadOnly)
}

// Read reads stores at the other end of a stream that was called for with Files. The client ends with the stream, and
// close ends both.
func Read(s oob.Stream) (client *remote.Client, close func()) {
	conn := oob.New(s)
	client = remote.NewClient(func(p []byte) error { return conn.Send(oob.Msg{Kind: oob.Files, To: oob.Head, Data: p}) })
	go func() {
		client.Close(hear(conn, client.Handle))
		conn.Close()
	}()
	return client, func() { conn.Close() }
}

var errOther = errors.New("a frame that does not belong to the reading of files")

// hear hands on frames until the stream ends or breaks the protocol.
func hear(conn *oob.Conn, handle func([]byte) error) error {
	for {
		m, err := conn.Recv()
		switch {
		case err != nil:
			return err
		case m.Kind != oob.Files:
			return errOther
		}
		if err := handle(m.Data); err != nil {
			return err
		}
	}
}
