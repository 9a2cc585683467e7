package job

import (
	"testing"
	"time"
)

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
		{"in use, dear to collect", heap{objects: 1000 * mb, live: 1000 * mb, cycles: 10, spent: 2 * time.Second}, false},
		{"in use, as far as is known", heap{objects: 1000 * mb, live: 1000 * mb, cycles: 10, spent: time.Second}, true},
		{"objects gone since the collection", heap{objects: 10 * mb, live: 1000 * mb, cycles: 1}, false},
		{"free memory", heap{objects: 100 * mb, live: 100 * mb, free: 100 * mb, cycles: 10, spent: 100 * time.Millisecond}, true},
		{"cheap to collect", heap{objects: 1100 * mb, live: 100 * mb, cycles: 10, spent: time.Second}, true},
		{"dear to collect", heap{objects: 1100 * mb, live: 1000 * mb, cycles: 10, spent: 10 * time.Second}, false},
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
