package job

import "testing"

// Garbage is collected where that takes less than imaging it.
func TestWorthCollecting(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		what string
		heap heap
		want bool
	}{
		{"nothing", heap{}, false},
		{"little", heap{objects: 15 * mb}, false},
		{"much, never collected", heap{objects: 100 * mb}, true},
		{"in use, full of pointers", heap{objects: 1000 * mb, live: 1000 * mb, scan: 900 * mb}, false},
		{"in use as far as is known, numbers", heap{objects: 1000 * mb, live: 1000 * mb, scan: 10 * mb}, true},
		{"objects gone since the collection", heap{objects: 10 * mb, live: 1000 * mb, free: 10 * mb, scan: 900 * mb}, false},
		{"free memory", heap{objects: 100 * mb, live: 100 * mb, free: 100 * mb, scan: 90 * mb}, true},
		{"garbage and pointers", heap{objects: 1100 * mb, live: 100 * mb, scan: 90 * mb}, true},
		{"the program collects nothing", heap{objects: 1000 * mb, off: true}, false},
	} {
		if got := c.heap.worth(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// The run-time knows the numbers by these names.
func TestReadHeap(t *testing.T) {
	if h := readHeap(); h.objects == 0 || h.off {
		t.Errorf("%+v", h)
	}
}
