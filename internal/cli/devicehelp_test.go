package cli

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// What help says of the devices that may take what another one has is what the rule accepts.
func TestHelpOfDevicesIsTrue(t *testing.T) {
	for _, from := range []string{"opencl:0", "cuda:0"} {
		for _, to := range []string{"opencl:1", "cuda:1", "1"} {
			library, _, named := strings.Cut(to, ":")
			_, err := offload.InPlaceOf(from, to)
			if same := !named || strings.HasPrefix(from, library); same != (err == nil) {
				t.Errorf("%s in place of %s: %v", to, from, err)
			}
		}
	}
	if offload.CheckDevice("cpu:0") == nil {
		t.Error("cpu:0 takes what is moved")
	}
	for _, verb := range []string{offload.SwapIn, "migrate"} {
		help := strings.Join(strings.Fields(lookup(verb).help()), " ")
		if !strings.Contains(help, "same library") && !strings.Contains(help, "same machine and library") || strings.Contains(help, "another device of any kind") {
			t.Errorf("help %s does not say that the device is of the same library:\n%s", verb, help)
		}
	}
}
