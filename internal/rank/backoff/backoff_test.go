package backoff

import (
	"runtime"
	"testing"
)

// A restart that puts more ranks on a machine, or fewer, changes how they wait.
func TestSet(t *testing.T) {
	one, many := Config{Ranks: 1}, Config{Ranks: 8 * runtime.NumCPU()}
	var p Backoff
	var b Ticks
	p.Init(one)
	b.Set(one)
	looks, spin, tick := p.Looks, p.spin, b.tick
	p.Set(many)
	b.Set(many)
	if !p.Shares() || p.Looks >= looks || b.tick <= tick {
		t.Errorf("%d ranks share the CPUs and wait as one alone: %+v, %v", many.Ranks, p, b.tick)
	}
	p.Set(one)
	b.Set(one)
	if p.Shares() || p.Looks != looks || p.spin != spin || b.tick != tick {
		t.Errorf("alone again: %+v, %v", p, b.tick)
	}
}
