package rdma

import (
	"github.com/gorun-mpi/gorun/rpi"
)

// Parameters lists what can be set, for gorun info.
func Parameters() []rpi.Parameter {
	return []rpi.Parameter{
		{Name: "rdma.provider", Default: "", Doc: "what to open: a provider of those that gorun info lists; without a name the first that has a device"},
		{Name: "rdma.device", Default: "", Doc: "which of the provider's devices; without a name the first that reaches the other ranks"},
		{Name: "rdma.depth", Default: "16", Doc: "frames that may be under way to a peer, number; each takes a slot on both sides"},
		{Name: "rdma.slot", Default: "8192", Doc: "longest frame that is copied and sent, bytes; the payload of a longer one is read by the receiver"},
		{Name: "rdma.eager", Default: "32768", Doc: "largest message sent without an announcement, bytes"},
		{Name: "rdma.receives", Default: "1024", Doc: "most buffers that wait for messages of all peers together, number"},
	}
}

type params struct {
	provider, device             string
	depth, slot, eager, receives int
}

// CheckParams returns an error if the rdma.* entries of a job's parameters are invalid. It returns
// nil if nothing is.
func CheckParams(given map[string]string) error {
	_, err := parseParams(given)
	return err
}

func parseParams(given map[string]string) (params, error) {
	s := rpi.NewSettings("rdma", Parameters(), given)
	p := params{
		provider: s.Text("rdma.provider"),
		device:   s.Text("rdma.device"),
		depth:    s.Number("rdma.depth", 2, 1024),
		slot:     s.Number("rdma.slot", 512, 1<<20),
		eager:    s.Number("rdma.eager", 0, rpi.MaxFrame),
		receives: s.Number("rdma.receives", 16, 1<<15),
	}
	return p, s.Err()
}
