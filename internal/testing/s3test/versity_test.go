package s3test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// A server that ends before it listens is not waited for.
func TestListens(t *testing.T) {
	cmd := exec.Command("/bin/false")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	if err := listens(t.Context(), filepath.Join(t.TempDir(), "socket"), ended); err == nil {
		t.Error("nobody listens")
	}
}
