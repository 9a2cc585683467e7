package mpi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

type document struct {
	Title string
	Words map[string][]int
	Next  *document
}

// jsonCodec is another codec.
type jsonCodec struct{}

func (jsonCodec) Encode(w io.Writer, v any) error   { return json.NewEncoder(w).Encode(v) }
func (jsonCodec) Decode(r io.Reader, ptr any) error { return json.NewDecoder(r).Decode(ptr) }

func TestObjects(t *testing.T) {
	doc := document{"a", map[string][]int{"x": {1, 2}}, &document{Title: strings.Repeat("long ", 20_000)}}
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		for _, codec := range []mpi.Codec{mpi.Gob, jsonCodec{}} {
			if err := onComms(world.WithCodec(codec), func(c *mpi.Comm) error {
				next, prev := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
				got := make(chan error, 1)
				go func() { // a long object to itself needs both at once
					var d document
					st, err := mpi.RecvObject(c, &d, prev, 3)
					if err == nil && (!reflect.DeepEqual(d, doc) || st.Source != prev || st.Tag != 3 || st.Bytes < 100_000) {
						err = fmt.Errorf("%.80v, %+v", d, st)
					}
					got <- err
				}()
				return all(mpi.SendObject(c, doc, next, 3), <-got)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestObjectErrors(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		if err := mpi.SendObject(c, func() {}, 0, 0); err == nil || !strings.Contains(err.Error(), "encoding a func()") {
			return fmt.Errorf("a function: %v", err)
		}
		if err := mpi.Send(c, []byte("no object"), 0, 1); err != nil {
			return err
		}
		var d document
		_, err := mpi.RecvObject(c, &d, 0, 1)
		if err := wantErr("bytes as object", err, mpi.ErrType); err != nil {
			return err
		}
		if err := mpi.SendObject(c, 5, 0, 2); err != nil {
			return err
		}
		if _, err := mpi.RecvObject(c, &d, 0, 2); err == nil || !strings.Contains(err.Error(), "decoding into *mpi_test.document") {
			return fmt.Errorf("another type: %v", err)
		}
		return wantErr("rank", mpi.SendObject(c, 1, 7, 0), mpi.ErrRank)
	})
}
