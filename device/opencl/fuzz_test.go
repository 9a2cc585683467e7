package opencl

import "testing"

// Whatever gorun-device prints, each device of a list has its place's ID.
func FuzzList(f *testing.F) {
	f.Add([]byte(`[{"kind":"cpu","name":"a"},{"units":3,"max_group":64,"double":true}]`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		infos, err := parseList(out)
		if err != nil && infos != nil {
			t.Errorf("%v with %v", infos, err)
		}
		for i, info := range infos {
			if info.ID != id(i) {
				t.Errorf("device %d is called %s", i, info.ID)
			}
		}
	})
}
