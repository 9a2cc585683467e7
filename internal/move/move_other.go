//go:build !amd64

package move

// ByVectors is up to how many bytes copy is faster than what else there is.
const ByVectors = 4 << 10

// Bytes is copy.
func Bytes(dst, src []byte) int { return copy(dst, src) }
