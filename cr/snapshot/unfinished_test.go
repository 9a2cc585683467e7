package snapshot

import (
	"errors"
	"os"
	"testing"
)

// TestUnfinished: of the jobs that fit the newest that has not ended well, with its older snapshots. One that
// cannot be read is told, and does not stand in the way.
func TestUnfinished(t *testing.T) {
	c := catalogue(t)
	a, b := commit(t, c, jobA, 2), commit(t, c, jobB, 2)
	any := func(*Schema) bool { return true }
	only := func(job string) func(*Schema) bool { return func(s *Schema) bool { return s.Job == job } }
	find := func(fits func(*Schema) bool, doubts int, want ...*Snapshot) {
		t.Helper()
		all, passed, doubtful, err := c.Unfinished(fits)
		if len(want) == 0 && !errors.Is(err, ErrNotFound) || len(want) > 0 && err != nil || len(all) != len(want) || len(passed) > 0 || len(doubtful) != doubts {
			t.Fatalf("%d snapshots, %v, %v, %v; want %d", len(all), passed, doubtful, err, len(want))
		}
		for i := range want {
			if all[i].Dir != want[i].Dir {
				t.Errorf("%d is %s, want %s", i, all[i].Dir, want[i].Dir)
			}
		}
	}
	find(any, 0, b)
	find(only(jobA), 0, a)
	find(only("x"), 0)
	a2 := commit(t, c, jobA, 2)
	find(any, 0, a2, a)
	if err := a2.Finish(); err != nil {
		t.Fatal(err)
	}
	find(only(jobA), 0)
	find(any, 0, b)
	if err := os.WriteFile(b.SchemaPath(), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	find(any, 1)
}
