package cli

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	crself "github.com/gorun-mpi/gorun/cr/self"
)

// somewhere is rows 2 and 3 of 9.
type somewhere struct{ own []float64 }

func (s *somewhere) Part() crself.Part {
	return crself.Part{Rows: 9, Width: 2, First: 2, Own: &s.own}
}

// TestInspectRows: of a distributed variable the rows are told, not the section that says them.
func TestInspectRows(t *testing.T) {
	var reg crself.Registry
	defer reg.Close()
	step := 5
	for name, ptr := range map[string]any{"plate": &somewhere{make([]float64, 4)}, "step": crself.Replicated{Ptr: &step}, "mine": new(int8)} {
		if err := reg.Register(name, ptr); err != nil {
			t.Fatal(err)
		}
	}
	c, err := reg.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	path := filepath.Join(t.TempDir(), "image")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), nil, image.Options{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	out := h.must("image", "inspect", path)
	for _, want := range []string{"[]float64, rows 2 to 4 of 9 with 2 elements each ", "int64, the same on all ranks ", "int8 "} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nwithout %q", out, want)
		}
	}
	if regexp.MustCompile(`(?m)^\w+ +(window|digest) `).MatchString(out) {
		t.Errorf("it tells of sections: %s", out)
	}
	var in inspected
	if err := json.Unmarshal([]byte(h.must("image", "inspect", "-json", path)), &in); err != nil || len(in.Shares) != 2 || len(in.Sections) != 6 {
		t.Errorf("as JSON %+v, %v", in, err)
	}
}
