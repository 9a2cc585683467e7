package program

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Line names what makes two runs the same job to -restart-latest: the job's name, its program with the arguments, and its working folder.
func Line(name, program string, args []string, dir string) string {
	program, args = Same(program, args)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", name, program, args, dir))
	return hex.EncodeToString(sum[:16])
}
