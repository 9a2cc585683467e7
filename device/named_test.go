package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestNamedOnce: errors say once which device they are of, whether its provider has said it or not.
func TestNamedOnce(t *testing.T) {
	d, err := Open("cpu:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	plain := errors.New("it has ended")
	k := &Kernel{name: "axpy"}
	for _, cause := range []error{plain, fmt.Errorf("device cpu:0: %w", plain), fmt.Errorf("device cpu:0: kernel axpy: %w", plain)} {
		for what, err := range map[string]error{"told": d.told(k, cause), "failed": d.failed("capture", cause), "of": d.of(cause)} {
			if text := err.Error(); strings.Count(text, "device cpu:0") != 1 || strings.Count(text, "kernel axpy") > 1 || !errors.Is(err, plain) {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
}
