package opencl

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever gorun-device prints, each device of a list has an ID: its place's, unless it is another library's.
func FuzzList(f *testing.F) {
	f.Add([]byte(`[{"kind":"cpu","name":"a"},{"units":3,"max_group":64,"double":true}]`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`[{"library":"cuda","number":1}]`))
	f.Fuzz(func(t *testing.T, out []byte) {
		infos, err := parseList(out)
		if err != nil && infos != nil {
			t.Errorf("%v with %v", infos, err)
		}
		for i, info := range infos {
			if info.ID != fmt.Sprintf("opencl:%d", i) && !strings.Contains(strings.ToLower(string(out)), `"library"`) {
				t.Errorf("device %d is called %s", i, info.ID)
			}
		}
	})
}
