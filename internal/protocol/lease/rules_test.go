package lease

import (
	"math"
	"testing"
	"time"
)

// TestRules is the life of a lease, step by step.
func TestRules(t *testing.T) {
	h, g := NewHolder(DefaultTerms), NewGranter(DefaultTerms)
	if g.FencedAt() != math.MaxInt64 || h.Until() != 0 || g.Silent(0) || g.Silent(1e9) {
		t.Fatal("a lease before the first ask")
	}
	a := h.Ask(5000)
	if a != 5000 || !g.Renew(a, 100) || g.Renew(a, 101) {
		t.Fatal("the first ask is granted once")
	}
	h.Granted(a+1, 5001)
	if h.Until() != 0 {
		t.Error("a value that was never asked was taken")
	}
	h.Granted(a, 5002)
	if h.Until() != 20_000 {
		t.Errorf("until %d", h.Until())
	}
	b, c := h.Ask(6000), h.Ask(7000)
	if !g.Renew(c, 2100) || g.Renew(b, 2200) {
		t.Error("an ask that was overtaken is no sign of life")
	}
	h.Granted(c, 7100)
	h.Granted(b, 7200)
	if h.Until() != 22_000 {
		t.Errorf("until %d after a grant that was overtaken", h.Until())
	}
	for now := int64(3000); now < 9600; now += 1000 {
		if g.Silent(now) {
			t.Fatalf("lost at %d", now)
		}
	}
	if !g.Silent(9600) || g.SilentFor() != 7500 || g.Renew(h.Ask(15_000), 9601) {
		t.Errorf("silent for %d ms, not lost", g.SilentFor())
	}
	if g.FencedAt() != 2100+15_000+150+1000 {
		t.Errorf("fenced at %d", g.FencedAt())
	}
	h.Granted(h.Ask(22_001), 22_001)
	if h.Until() != 22_000 {
		t.Error("a lease that has run out was renewed")
	}
}

// TestNeverGranted: who was never granted anything is fenced at once.
func TestNeverGranted(t *testing.T) {
	g := NewGranter(DefaultTerms)
	g.End(7)
	g.End(9)
	if !g.Silent(10) || g.Renew(1, 11) || g.FencedAt() != 7 {
		t.Errorf("fenced at %d", g.FencedAt())
	}
}

// TestGranterStopped: a granter that stood still for minutes finds asks that have waited
// for it, and has lost nobody by that alone.
func TestGranterStopped(t *testing.T) {
	g := NewGranter(DefaultTerms)
	g.Renew(1, 0)
	if g.Silent(1000) || g.Silent(300_000) || !g.Renew(2, 300_001) {
		t.Error("lost while the granter stood still")
	}
}

// TestAsked: what a holder remembers does not grow while nobody answers.
func TestAsked(t *testing.T) {
	h := NewHolder(DefaultTerms)
	for now := int64(0); now < 1e6; now += 1000 {
		h.Ask(now)
	}
	if len(h.asked) != 15 || h.Ask(999_000) != 999_000 || len(h.asked) != 15 {
		t.Errorf("%d values remembered", len(h.asked))
	}
}

// TestTerms: which are refused.
func TestTerms(t *testing.T) {
	for _, c := range []struct {
		l, h time.Duration
		ok   bool
	}{
		{15 * time.Second, time.Second, true}, {3 * time.Second, 500 * time.Millisecond, true}, {time.Hour, time.Minute, true},
		{2999 * time.Millisecond, 100 * time.Millisecond, false}, {15 * time.Second, 0, false}, {15 * time.Second, 3 * time.Second, false},
	} {
		if err := (Terms{c.l, c.h}).Check(); (err == nil) != c.ok {
			t.Errorf("%v, %v: %v", c.l, c.h, err)
		}
	}
}
