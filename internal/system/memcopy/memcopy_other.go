//go:build !amd64

package memcopy

// ByVectors is the same limit as on amd64. Bytes always uses copy here.
const ByVectors = 4 << 10

// Bytes is copy.
func Bytes(dst, src []byte) int { return copy(dst, src) }
