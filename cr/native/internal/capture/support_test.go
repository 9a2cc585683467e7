//go:build amd64

package capture

import (
	"testing"
)

func TestSupported(t *testing.T) {
	if err := Supported(); err != nil {
		t.Error(err)
	}
	for _, f := range Features() {
		t.Log(f.Name, f.Err)
	}
}
