package cli

import (
	"strings"
	"testing"
)

// What has no counterpart when ranks are in Finalize is told, and nobody waits for ever.
func TestLeftOver(t *testing.T) {
	for how, want := range map[string]string{
		"small":    "gorun: warning: 3 messages were never received: from rank ",
		"bsend":    ", tag 5, 1600000 bytes, on world",
		"received": "",
		"recv":     "told: mpi: Recv(source 1, tag 5) on world, rank 0 of 3: the other rank is in Finalize: rank 1 ",
		"any":      "told: mpi: Recv(source any, tag 5) on world, rank 0 of 3: the other rank is in Finalize: ",
		"ssend":    "told: mpi: Ssend(destination 1, tag 5) on world, rank 0 of 3: the other rank is in Finalize: rank 1 ",
		"probe":    "told: mpi: Probe(source 1, tag 5) on world, rank 0 of 3: the other rank is in Finalize: rank 1 ",
		"irecv":    "Irecv(source 1, tag 5) on world, rank 0 of 3: the other rank is in Finalize: rank 1 ",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			_, errs, code := h.gorun("-np", "3", self(t), asRank, "leftover", how)
			if code != 0 || !strings.Contains(errs, want) || want == "" && errs != "" {
				t.Errorf("exit %d, %q is not in %s", code, want, errs)
			}
		})
	}
}
