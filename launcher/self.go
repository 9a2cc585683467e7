package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
)

// Self returns the path of the gorun that runs, and the SHA-256 of what it runs, in hex. The file
// under that path may have been replaced since.
var Self = sync.OnceValues(func() (self Executable, err error) {
	if self.Path, err = os.Executable(); err != nil {
		return self, fmt.Errorf("this gorun: %w", err)
	}
	f, err := Open()
	if err != nil {
		return self, err
	}
	defer f.Close()
	d := sha256.New()
	if self.Size, err = io.Copy(d, f); err != nil {
		return self, fmt.Errorf("this gorun: %w", err)
	}
	self.Digest = hex.EncodeToString(d.Sum(nil))
	return self, nil
})

// Executable describes the gorun that runs.
type Executable struct {
	Path   string
	Digest string
	Size   int64
}

// Open opens it, even if its path was replaced or removed.
func Open() (*os.File, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("this gorun: %w", err)
	}
	return f, nil
}
