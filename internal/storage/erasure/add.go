package erasure

import (
	"context"
	"fmt"

	"github.com/klauspost/reedsolomon"
)

// Add adds the contribution of one image to a stretch of a parity shard. A shard that began as
// zeros is the parity when all images of the group have been added, in any order. into is at least
// as long as piece.
func (c *Code) Add(parity, image int, into, piece []byte) {
	new(reedsolomon.LowLevel).GalMulSliceXor(c.factor[parity][image], piece, into[:len(piece)])
}

// Shard computes one parity shard of images. each is called with its stretches in order, and does not keep them. The images are read a
// stretch ahead, all at once. So a caller that has them on other nodes does not wait for each in turn.
func (c *Code) Shard(ctx context.Context, parity int, images []Source, each func(p []byte) error) error {
	if len(images) != c.data || parity < 0 || parity >= c.parity {
		return fmt.Errorf("code %d+%d: shard %d of %d images", c.data, c.parity, parity, len(images))
	}
	ctx, cancel := context.WithCancel(ctx)
	full, empty := make(chan [][]byte), make(chan [][]byte, 2)
	for range cap(empty) {
		bufs := c.bufs.Get().(*[][]byte)
		defer c.bufs.Put(bufs)
		empty <- (*bufs)[:c.data+1]
	}
	read := make(chan error, 1)
	go func() {
		defer close(full)
		read <- c.pieces(ctx, longest(images), func(off int64, n int) error {
			bufs := <-empty
			for i := range bufs {
				room(&bufs[i], n)
			}
			if err := fillAll(images, bufs[:c.data], off); err != nil {
				return err
			}
			select {
			case full <- bufs:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	err := c.sum(parity, full, empty, each)
	cancel()
	if readErr := <-read; err == nil {
		err = readErr
	}
	return err
}

// sum computes a stretch of a shard from each stretch of the images that comes.
func (c *Code) sum(parity int, full <-chan [][]byte, empty chan<- [][]byte, each func(p []byte) error) error {
	for bufs := range full {
		into := bufs[c.data]
		clear(into)
		for i, p := range bufs[:c.data] {
			c.Add(parity, i, into, p)
		}
		if err := each(into); err != nil {
			return err
		}
		empty <- bufs
	}
	return nil
}

// factors finds the factor of each image in each parity shard, by encoding a one among zeros.
func (c *Code) factors() error {
	c.factor = make([][]byte, c.parity)
	shards := make([][]byte, c.data+c.parity)
	for i := range c.data {
		for k := range shards {
			shards[k] = []byte{0}
		}
		shards[i][0] = 1
		if err := c.rs.Encode(shards); err != nil {
			return err
		}
		for p := range c.parity {
			c.factor[p] = append(c.factor[p], shards[c.data+p][0])
		}
	}
	return nil
}
