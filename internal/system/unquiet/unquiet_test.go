package unquiet

import (
	"os"
	"testing"
)

// TestProcess sees a mark while it is set.
func TestProcess(t *testing.T) {
	sees := func(want bool) {
		t.Helper()
		if got := Process(os.Getpid()); got != want {
			t.Errorf("marked: %v, want %v", got, want)
		}
	}
	sees(false)
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	sees(true)
	if err := m.Set(false); err != nil {
		t.Error(err)
	}
	sees(false)
	if err := m.Set(true); err != nil {
		t.Error(err)
	}
	sees(true)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	sees(false)
}
