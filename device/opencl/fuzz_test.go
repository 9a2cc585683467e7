package opencl

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// Whatever gorun-device prints, each device of a list has an ID.
func FuzzList(f *testing.F) {
	f.Add([]byte(`[{"library":"opencl","kind":"cpu","name":"a"},{"library":"opencl","number":1,"units":3,"max_group":64,"double":true}]`))
	f.Add([]byte(`[{}]`))
	f.Add([]byte(`[{"library":"cuda","number":-1}]`))
	f.Fuzz(func(t *testing.T, out []byte) {
		infos, err := parseList(out)
		if err != nil && infos != nil {
			t.Errorf("%v with %v", infos, err)
		}
		for i, info := range infos {
			if offload.CheckDevice(info.ID) != nil {
				t.Errorf("device %d is called %s", i, info.ID)
			}
		}
	})
}
