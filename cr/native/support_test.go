//go:build amd64

package native

import (
	"testing"
)

func TestSupported(t *testing.T) {
	if err := supported(); err != nil {
		t.Error(err)
	}
	for _, f := range features() {
		t.Log(f.Name, f.Err)
	}
}
