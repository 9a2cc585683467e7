//go:build !amd64

package move

// Bytes is copy.
func Bytes(dst, src []byte) int { return copy(dst, src) }
