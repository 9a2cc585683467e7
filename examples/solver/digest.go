package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"github.com/gorun-mpi/gorun/mpi"
)

// digest returns, on rank 0, the first 16 hexadecimal digits of a SHA-256. It is taken over the bits of the
// whole vector, little-endian on any architecture. Rank 0 takes one part at a time, so it needs no memory for
// the whole.
func digest(c *mpi.Comm, x []float64) (string, error) {
	if c.Rank() != 0 {
		return "", mpi.Send(c, x, 0, tagSolution)
	}
	h := sha256.New()
	hashFloats(h, x)
	for r := 1; r < c.Size(); r++ {
		part, _, err := mpi.RecvAlloc[float64](c, r, tagSolution)
		if err != nil {
			return "", err
		}
		hashFloats(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func hashFloats(h hash.Hash, x []float64) {
	var word [8]byte
	for _, v := range x {
		binary.LittleEndian.PutUint64(word[:], math.Float64bits(v))
		h.Write(word[:])
	}
}
