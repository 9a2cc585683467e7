package tcp

import (
	"testing"
	"time"
)

// What the kernel said of connections between two network namespaces, looked at once a second: unacked, retransmits,
// probes, milliseconds since the last acknowledgement.
type sample struct {
	unacked, retransmits, probes uint32
	heard                        int
}

func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		surely int // the look at which enough was sent in vain; -1: never
		silent int // seconds, at the last look
		said   []sample
	}{
		"nothing to acknowledge": {-1, 0, []sample{{0, 0, 0, 40}, {0, 0, 0, 3_600_000}, {0, 0, 0, 3_601_000}}},
		"sent after an hour":     {-1, 0, []sample{{0, 0, 0, 3_600_000}, {1, 0, 0, 3_601_000}, {0, 0, 0, 400}}},
		"cut":                    {2, 8, []sample{{2, 0, 0, 36}, {1, 2, 0, 984}, {1, 3, 0, 1988}, {1, 3, 0, 3004}, {1, 4, 0, 3984}, {1, 4, 0, 5000}, {1, 4, 0, 5988}, {1, 5, 0, 7004}, {1, 5, 0, 7996}, {1, 5, 0, 8984}}},
		"cut after an hour":      {2, 2, []sample{{0, 0, 0, 3_600_000}, {1, 2, 0, 3_601_000}, {1, 3, 0, 3_602_000}, {1, 3, 0, 3_603_000}}},
		"cut and mended":         {1, 0, []sample{{2, 2, 0, 980}, {2, 3, 0, 1960}, {2, 3, 0, 2964}, {2, 4, 0, 3968}, {2, 4, 0, 4960}, {2, 4, 0, 5964}, {2, 0, 0, 432}}},
		"two of five get lost":   {-1, 4, []sample{{2, 0, 0, 5428}, {2, 1, 0, 6432}, {2, 1, 0, 7432}, {2, 1, 0, 8444}, {2, 1, 0, 9432}, {2, 1, 0, 10_428}}},
		"far away":               {-1, 0, []sample{{3, 1, 0, 210}, {5, 2, 0, 800}, {2, 1, 0, 90}, {4, 3, 0, 950}, {4, 1, 0, 300}}},
		"stopped":                {-1, 0, []sample{{77, 0, 0, 0}, {71, 0, 0, 8}, {0, 0, 1, 440}, {0, 0, 0, 0}, {0, 0, 2, 1292}, {0, 0, 0, 4}, {0, 0, 0, 1004}, {0, 0, 0, 3004}, {0, 0, 0, 12}}},
		"stopped and cut":        {2, 9, []sample{{0, 0, 0, 4004}, {0, 0, 1, 7936}, {0, 0, 3, 8936}, {0, 0, 3, 17_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			var w watch
			surely, last := -1, time.Duration(0)
			now := time.Unix(1000, 0)
			for i, s := range c.said {
				if i > 0 { // the looks of "stopped and cut" are further apart
					now = now.Add(max(time.Second, time.Duration(s.heard-c.said[i-1].heard)*time.Millisecond))
				}
				var sure bool
				last, sure = w.look(now, signs{s.unacked, s.retransmits, s.probes, time.Duration(s.heard) * time.Millisecond})
				if sure && surely < 0 && last >= time.Second {
					surely = i
				}
			}
			if surely != c.surely || last.Round(time.Second) != time.Duration(c.silent)*time.Second {
				t.Errorf("sure at look %d, silent for %v at the last, want %d and %ds", surely, last, c.surely, c.silent)
			}
		})
	}
}
