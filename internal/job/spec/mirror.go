package spec

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// MirrorNone is the policy that keeps each image in the memory of its own node alone: it survives the ranks, and not the
// node.
const MirrorNone = "none"

// ParseMirror reads a policy for images in memory; nil is MirrorNone.
func ParseMirror(s string) (protect.Policy, error) {
	if s == MirrorNone {
		return nil, nil
	}
	p, err := protect.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%w, and none", err)
	}
	return p, nil
}
