package head

import (
	"syscall"
	"testing"
)

func TestShare(t *testing.T) {
	for np := 1; np < 70; np++ {
		for n := 1; n <= np; n++ {
			next := 0
			for i := range n {
				from, to := share(i, n, np)
				if from != next || to-from < np/n || to-from > (np+n-1)/n {
					t.Fatalf("np %d, agent %d of %d: %d to %d after %d", np, i, n, from, to, next)
				}
				next = to
			}
			if next != np {
				t.Fatalf("np %d over %d agents: %d ranks", np, n, next)
			}
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]syscall.Signal{"TERM": 15, "SIGTERM": 15, "usr1": 10, "15": 15, "sigint": 2} {
		if got, err := ParseSignal(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "65", "-1", "NOSUCH", "SIG"} {
		if got, err := ParseSignal(in); err == nil {
			t.Errorf("%q is taken for %v", in, got)
		}
	}
}
