package wire

import "testing"

func TestAnother(t *testing.T) {
	devices := []string{"opencl:0", "opencl:1", "cuda:0"}
	for id, want := range map[string]string{"opencl:0": "opencl:1", "opencl:1": "opencl:0", "cuda:0": ""} {
		if got := Another(id, devices); got != want {
			t.Errorf("for %s: %q, not %q", id, got, want)
		}
	}
}

func TestAlarm(t *testing.T) {
	for line, want := range map[string]Alarm{
		"node":                     {},
		" node # ECC\n":            {},
		"device 0":                 {Device: "0"},
		"device opencl:0 to 1":     {Device: "opencl:0", To: "1"},
		"device 0 to opencl:1@b:2": {Device: "0", To: "opencl:1", Node: "b:2"},
	} {
		got, err := ParseAlarm(line)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
		if again, err := ParseAlarm(got.String()); err != nil || again != want {
			t.Errorf("%q: %+v, %v", got, again, err)
		}
	}
	for _, line := range []string{"", "nodes", "node b", "device", "device 0 to", "device 0 to @b", "device 0 to 1@", "device 0 from 1", "# node"} {
		if a, err := ParseAlarm(line); err == nil {
			t.Errorf("%q: %+v", line, a)
		}
	}
}

// FuzzAlarm: what a command prints is an alarm that says the same when it is written again, or refused.
func FuzzAlarm(f *testing.F) {
	for _, s := range []string{"node", "device 0 # hot", "device cuda:0 to 1@b", "device 0 to @", "device\x00 0", "node node"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a, err := ParseAlarm(line)
		if err != nil {
			return
		}
		if again, err := ParseAlarm(a.String()); err != nil || again != a {
			t.Fatalf("%q is %+v, and again %+v, %v", line, a, again, err)
		}
	})
}
