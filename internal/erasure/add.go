package erasure

import "github.com/klauspost/reedsolomon"

// Add adds to a stretch of a parity shard what one image contributes to it. A shard that began as zeros is the parity when all images
// of the group have been added, in any order. into is at least as long as piece.
func (c *Code) Add(parity, image int, into, piece []byte) {
	new(reedsolomon.LowLevel).GalMulSliceXor(c.factor[parity][image], piece, into[:len(piece)])
}

// factors finds by what each image is multiplied in each parity shard: what becomes of a one among zeros.
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
