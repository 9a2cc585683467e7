package native

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAttributes: what a program has denied itself it is denied after a restart.
func TestAttributes(t *testing.T) {
	tr, img := imagedVictim(t, "modest", "threads")
	before := stateOf(t, img)
	if l := before.Limits; len(l) != numLimits || l[unix.RLIMIT_NOFILE] != (Limit{100, 200}) || before.Nice != 7 || !before.NoNewPrivs {
		t.Fatalf("limits %v, priority %d, no_new_privs %v", before.Limits, before.Nice, before.NoNewPrivs)
	}
	tr.restore(img)
	tr.works(1)
	after := stateOf(t, tr.image(CaptureOptions{}))
	for i, l := range after.Limits {
		if l.Soft != before.Limits[i].Soft {
			t.Errorf("resource limit %d is %d, was %d", i, l.Soft, before.Limits[i].Soft)
		}
	}
	if after.Nice != 7 || !after.NoNewPrivs {
		t.Errorf("priority %d, no_new_privs %v", after.Nice, after.NoNewPrivs)
	}
}
