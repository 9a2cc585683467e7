package proc

import "testing"

func TestTimes(t *testing.T) {
	if got, ok := parseSchedstat([]byte("1000 20 3\n")); !ok || got != (thread{1000, 20}) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, bad := range []string{"", "1", "1 -1 0", "a b c"} {
		if _, ok := parseSchedstat([]byte(bad)); ok {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What threads had that are new, or have taken the number of one that ended, counts from their beginning.
func TestTimesSince(t *testing.T) {
	before := Times{System: 10, threads: map[int]thread{1: {100, 10}, 2: {50, 5}, 3: {7, 7}}}
	after := Times{System: 14, threads: map[int]thread{1: {130, 12}, 2: {20, 1}, 4: {8, 2}}}
	if got, want := after.Since(before), (Use{Run: 30 + 20 + 8, System: 4, Wait: 2 + 1 + 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
