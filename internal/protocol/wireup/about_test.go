package wireup

import (
	"encoding/json"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// TestAbout: what carries the frames of a transport is told, by ranks if that differs, and left out by ranks of before.
func TestAbout(t *testing.T) {
	const soft, rxe = "device net of provider soft", "device rxe0 of provider rxe"
	for want, about := range map[string][]string{
		"rdma":              {"", "", ""},
		"rdma over " + soft: {soft, soft, soft},
		"rdma over " + soft + " (ranks 0, 2), " + rxe + " (rank 1)": {soft, rxe, soft},
	} {
		h := New(3)
		for rank := range about {
			if _, err := h.Address(rank, &oob.Msg{Data: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		for rank, text := range about {
			info := oob.ReachInfo{Order: []string{"rdma"}, Opened: []string{"rdma"}}
			if text != "" {
				info.About = map[string]string{"rdma": text}
			}
			data, err := json.Marshal(info)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := h.Reach(rank, &oob.Msg{Data: data}); err != nil {
				t.Fatal(err)
			}
		}
		s := h.Summary()
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
