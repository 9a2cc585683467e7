package rpi

import (
	"runtime"
	"testing"
)

// A restart that puts ranks closer together, or further apart, changes how they
// wait.
func TestSetLocal(t *testing.T) {
	many := 8 * runtime.NumCPU()
	e := New(Config{Size: many, Local: 1})
	alone, ticks := e.pace, e.back.tick
	e.SetLocal(many)
	if e.pace.spin >= alone.spin || e.back.tick <= ticks {
		t.Errorf("%d ranks share the CPUs and wait as one alone: %+v, %v", many, e.pace, e.back.tick)
	}
	e.SetLocal(1)
	if e.pace != alone || e.back.tick != ticks {
		t.Errorf("alone again: %+v, %v", e.pace, e.back.tick)
	}
}
